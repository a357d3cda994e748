import { setTimeout as delay } from 'node:timers/promises';
import type { ClientSurface } from '../../../client/client.ts';
import type { RetentionReport } from '../../../management/retention-records.ts';
import type { RetentionPolicy } from '../../../management/retention-policy.ts';
import { readAudit } from '../../audit-options.ts';
import { CliError, interrupted } from '../../cli-error.ts';
import type { Call, ExitCode } from '../../command.ts';
import { hint } from '../../hint.ts';
import { countOf, formatAge, formatDuration } from '../../text/format.ts';
import { writeJson } from '../../text/json.ts';
import { writeFields } from '../../text/table.ts';

/** Shows the policies, the pause and the last sweep of retention. */
export async function show(call: Call): Promise<ExitCode> {
  const { terminal, json } = call;
  const { stdout } = terminal;
  const { client } = await call.open();
  const status = await client.retention.status();
  if (json) {
    writeJson(stdout, status);
    return 0;
  }
  const { paused, policies, lastReport } = status;
  const nowMs = Date.now();
  const by = paused?.actor == null ? '' : ` by ${paused.actor}`;
  writeFields(stdout, [
    ['paused', paused === null ? 'no' : `${formatAge(paused.at, nowMs)}${by}`],
    [
      'policies',
      policies === null || policies.length === 0
        ? 'none: instances are kept forever'
        : policies.map(describePolicy).join('\n'),
    ],
    ...(lastReport === null ? [['last sweep', 'never'] as const] : reportFields(lastReport)),
  ]);
  if (policies === null) {
    hint(call, 'Start a worker with the `retention` option to delete old instances.');
  }
  return 0;
}

/** Pauses the sweeps of all workers. */
export async function pause(call: Call): Promise<ExitCode> {
  const { client } = await call.open();
  await client.retention.pause(readAudit(call));
  return changed(call, true);
}

/** Resumes the sweeps of all workers. */
export async function resume(call: Call): Promise<ExitCode> {
  const { client } = await call.open();
  await client.retention.resume(readAudit(call));
  return changed(call, false);
}

function changed({ terminal, json }: Call, paused: boolean): ExitCode {
  if (json) writeJson(terminal.stdout, { paused });
  else terminal.stdout.write(`retention ${paused ? 'paused' : 'resumed'}\n`);
  return 0;
}

/** Runs a sweep with the policies of the workers. */
export async function sweep(call: Call): Promise<ExitCode> {
  const { options, terminal, json } = call;
  const dryRun = options.flag('dry-run');
  const { client } = await call.open();
  const { policies } = await client.retention.status();
  if (policies === null) {
    throw new CliError(
      4,
      'REFUSED',
      'No worker of this store has stored policies of retention. Nothing was changed.',
      'Start a worker with the `retention` option. It stores its policies with its first sweep.',
    );
  }
  if (!dryRun && !options.flag('yes')) {
    await terminal.confirm('Delete all instances whose time of retention has passed');
  }
  const report = await runSweep(call, client, dryRun).catch((error: unknown) => {
    throw terminal.interrupted.aborted ? stopped() : error;
  });
  if (report === null) {
    throw new CliError(4, 'REFUSED', 'Another sweep is running. Nothing was changed.');
  }
  if (json) writeJson(terminal.stdout, report);
  else writeFields(terminal.stdout, reportFields(report));
  if (report.outcome === 'stopped') throw stopped();
  return report.outcome === 'done' ? 0 : 1;
}

function stopped(): CliError {
  return interrupted(
    'Interrupted.',
    'Run `perdure retention run` again: the next sweep continues.',
  );
}

const pollMs = 500;

/** Runs a sweep with a bar. A sweep reports no progress, so the bar follows the number of instances in the store. */
async function runSweep(
  call: Call,
  client: ClientSurface,
  dryRun: boolean,
): Promise<RetentionReport | null> {
  const { terminal } = call;
  const { retention } = client;
  const signal = terminal.interrupted;
  const options = { actor: readAudit(call).actor, signal };
  if (dryRun || !terminal.stderr.isTTY) return retention.run({ ...options, dryRun });
  const [preview, before] = await Promise.all([
    retention.run({ ...options, dryRun: true }),
    countInstances(client),
  ]);
  const total = preview?.deleted.instancesDeleted ?? 0;
  const bar = terminal.progress('deleting');
  bar.update(0, total);
  const ended = new AbortController();
  const following = (async () => {
    for (;;) {
      await delay(pollMs, undefined, { signal: ended.signal });
      const deleted = before - (await countInstances(client));
      bar.update(Math.min(Math.max(deleted, 0), total), total);
    }
  })().catch(() => undefined); // The sweep reports the error.
  try {
    return await retention.run(options);
  } finally {
    ended.abort();
    await following;
    bar.end();
  }
}

async function countInstances(client: ClientSurface): Promise<number> {
  const { instances } = await client.systemMetrics();
  return Object.values(instances).reduce((sum, count) => sum + count, 0);
}

function reportFields(
  report: RetentionReport,
): readonly (readonly [name: string, value: string | undefined])[] {
  const { deleted, pruned, dryRun, left, errors, startedAt, endedAt } = report;
  const verb = dryRun ? 'would delete' : 'deleted';
  return [
    [
      'last sweep',
      `${report.outcome}, ${formatAge(startedAt, Date.now())}, took ${formatDuration(endedAt - startedAt)}, by ${report.sweeper}`,
    ],
    [
      verb,
      `${countOf(deleted.instancesDeleted, 'instance')}, ${countOf(deleted.executionsDeleted + pruned.executionsDeleted, 'execution')}, ${countOf(deleted.eventsDeleted + pruned.eventsDeleted, 'event')}`,
    ],
    ['skipped', left === 0 ? undefined : `${countOf(left, 'tree')} with running instances`],
    ['errors', errors.join('\n')],
  ];
}

function describePolicy(policy: RetentionPolicy): string {
  const names = [policy.names ?? 'all'].flat().join(', ');
  if ('keepExecutions' in policy) return `${names}: keep ${policy.keepExecutions} executions`;
  const statuses = policy.statuses === undefined ? '' : ` ${[policy.statuses].flat().join(', ')}`;
  const keepFor =
    typeof policy.keepFor === 'number' ? formatDuration(policy.keepFor) : policy.keepFor;
  return `${names}${statuses}: keep ${keepFor === 'forever' ? keepFor : `for ${keepFor}`}`;
}
