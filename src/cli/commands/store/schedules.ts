import type { ScheduleInfo, ScheduleRun } from '../../../client/managing/schedules.ts';
import { PerdureError } from '../../../model/failures/errors.ts';
import { readAudit } from '../../audit-options.ts';
import { interrupted, usage } from '../../cli-error.ts';
import type { Call, ExitCode } from '../../command.ts';
import { hint } from '../../hint.ts';
import { clean, countOf, formatAge, formatDuration, formatTime, idFor } from '../../text/format.ts';
import { writeJson } from '../../text/json.ts';
import { statusStyle } from '../../text/status-style.ts';
import { idArgument, shellLine } from '../../text/shell-line.ts';
import { writeFields, writeTable } from '../../text/table.ts';
import { readDate } from '../../times.ts';

/** Lists the schedules by name. */
export async function list(call: Call): Promise<ExitCode> {
  const { options, terminal, json } = call;
  const { stdout, stderr } = terminal;
  const { client } = await call.open();
  const page = await client.schedules.list({
    limit: options.number('limit'),
    after: options.text('after'),
  });
  if (json) {
    writeJson(stdout, page);
    return 0;
  }
  if (page.items.length === 0) {
    stderr.write('No schedules. Create them with `client.schedules.put()`.\n');
  } else {
    const nowMs = Date.now();
    writeTable(stdout, page.items, [
      { title: 'NAME', value: ({ name }: ScheduleInfo) => name, min: 10 },
      { title: 'TIMING', value: timingOf, drop: 2 },
      { title: 'STARTS', value: ({ definition }) => definition?.starts.name ?? '', drop: 3 },
      {
        title: 'NEXT',
        value: ({ paused, nextAt }) =>
          paused ? 'paused' : nextAt === undefined ? 'never' : formatAge(nextAt, nowMs),
        style: ({ paused }) => (paused ? 'yellow' : undefined),
      },
      {
        title: 'LAST',
        value: ({ lastTickAt }) => (lastTickAt === undefined ? '' : formatAge(lastTickAt, nowMs)),
        drop: 4,
      },
      { title: 'ERROR', value: ({ lastError }) => lastError ?? '', min: 8, drop: 1 },
    ]);
  }
  if (page.nextAfter !== undefined) {
    stderr.write(
      `There are more schedules. Continue with --after ${clean(shellLine([page.nextAfter]))}.\n`,
    );
  }
  return 0;
}

/** Shows a schedule with its next ticks and its last runs. */
export async function show(call: Call): Promise<ExitCode> {
  const { terminal, json } = call;
  const { stdout } = terminal;
  const [name = ''] = call.operands;
  const { client } = await call.open();
  const schedule = await client.schedules.get(name);
  if (schedule === undefined) throw notFound(name);
  const [next, runs] = await Promise.all([
    client.schedules.next(name),
    client.schedules.runs(name),
  ]);
  if (json) {
    writeJson(stdout, { ...schedule, next, runs });
    return 0;
  }
  const { definition, skippedTicks, bufferedTicks } = schedule;
  const nowMs = Date.now();
  writeFields(stdout, [
    ['name', name],
    ['state', schedule.paused ? 'paused' : 'active'],
    ['timing', timingOf(schedule)],
    ['starts', definition && `${definition.starts.kind} ${definition.starts.name}`],
    ['overlap', definition?.overlap ?? 'allow'],
    ['catch-up', definition?.catchUp],
    ['skipped', skippedTicks === undefined ? undefined : countOf(skippedTicks, 'tick')],
    ['waiting', bufferedTicks === undefined ? undefined : countOf(bufferedTicks.length, 'tick')],
    ['error', schedule.lastError],
    [
      'next',
      next.map(({ firesAt }) => `${formatTime(firesAt)} (${formatAge(firesAt, nowMs)})`).join('\n'),
    ],
  ]);
  if (runs.length > 0) {
    stdout.write('\n');
    writeTable(stdout, runs, [
      { title: 'RUN', value: ({ id }: ScheduleRun) => id },
      {
        title: 'STATUS',
        value: ({ status }) => status,
        style: ({ status }) => statusStyle(status),
      },
      { title: 'AGE', value: ({ createdAt }) => formatAge(createdAt, nowMs), drop: 1 },
      { title: 'FAILURE', value: ({ failure }) => failure?.message ?? '', min: 8, drop: 2 },
    ]);
  }
  return 0;
}

/** Starts one run of a schedule now. */
export async function trigger(call: Call): Promise<ExitCode> {
  const { options, terminal, json } = call;
  const [name = ''] = call.operands;
  const { client } = await call.open();
  const result = await client.schedules.trigger(name, {
    ...readAudit(call),
    key: options.text('key'),
  });
  if (json) writeJson(terminal.stdout, result);
  else
    terminal.stdout.write(
      `${idFor(terminal.stdout, result.id)}${result.created ? '' : '  exists already'}\n`,
    );
  hint(call, `Run \`perdure watch ${idArgument(result.id)}\` to follow it.`);
  return 0;
}

/** Stops a schedule from firing until it is resumed. */
export async function pause(call: Call): Promise<ExitCode> {
  const [name = ''] = call.operands;
  const { client } = await call.open();
  await client.schedules.pause(name, readAudit(call));
  return changed(call, name, true);
}

/** Resumes a paused schedule. */
export async function resume(call: Call): Promise<ExitCode> {
  const [name = ''] = call.operands;
  const { client } = await call.open();
  await client.schedules.resume(name, readAudit(call));
  return changed(call, name, false);
}

function changed({ terminal, json }: Call, name: string, paused: boolean): ExitCode {
  if (json) writeJson(terminal.stdout, { name, paused });
  else terminal.stdout.write(`${clean(name)}  ${paused ? 'paused' : 'resumed'}\n`);
  return 0;
}

/** Starts the runs of past ticks, in parts. Ctrl-C ends it after the current part. */
export async function backfill(call: Call): Promise<ExitCode> {
  const { options, terminal, json } = call;
  const [name = ''] = call.operands;
  const [from, to] = [readDate(options, 'from'), readDate(options, 'to') ?? new Date()];
  if (from === undefined) throw usage('Missing --from: the time of the first tick.');
  const dryRun = options.flag('dry-run');
  const { client } = await call.open();
  const total = { started: 0, existing: 0 };
  const bar = terminal.progress('starting runs');
  let next: number | undefined = from.getTime();
  try {
    while (next !== undefined && !terminal.interrupted.aborted) {
      const part: { started: number; existing: number; nextFrom?: number } =
        await client.schedules.backfill(name, {
          ...readAudit(call),
          from: next,
          to,
          dryRun,
          limit: options.number('limit'),
        });
      total.started += part.started;
      total.existing += part.existing;
      next = part.nextFrom;
      bar.update(total.started + total.existing);
    }
  } finally {
    bar.end();
  }
  const rest = next === undefined ? {} : { nextFrom: next };
  if (json) writeJson(terminal.stdout, { ...total, ...rest });
  else {
    const verb = dryRun ? 'would start' : 'started';
    terminal.stdout.write(`${verb} ${countOf(total.started, 'run')}, ${total.existing} existed\n`);
  }
  if (next === undefined) return 0;
  throw interrupted('Interrupted.', `Continue with --from ${new Date(next).toISOString()}.`);
}

function notFound(name: string): PerdureError {
  return new PerdureError(
    'SCHEDULE_NOT_FOUND',
    `No schedule has the name ${JSON.stringify(name)}.`,
  );
}

function timingOf({ definition }: ScheduleInfo): string {
  if (definition === undefined) return 'damaged';
  const { cron, timeZone, everyMs } = definition;
  if (everyMs !== undefined) return `every ${formatDuration(everyMs)}`;
  return timeZone === undefined || timeZone === 'UTC' ? (cron ?? '') : `${cron ?? ''} ${timeZone}`;
}
