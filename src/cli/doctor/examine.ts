import type { Attention } from '../../client/explaining/attention.ts';
import type { ClientSurface } from '../../client/client.ts';
import type { StoreReport } from '../../providers/shared/store-report.ts';
import { checkBlockedInstances } from './checks/blocked-instances.ts';
import { checkBloat } from './checks/bloat.ts';
import { checkClockSkew } from './checks/clock-skew.ts';
import { checkConnectionLimit } from './checks/connection-limit.ts';
import { checkFileMode } from './checks/file-mode.ts';
import { checkHeldByLimits } from './checks/held-by-limits.ts';
import { checkIdleTransactions } from './checks/idle-transactions.ts';
import { checkJournalMode } from './checks/journal-mode.ts';
import { checkLateSchedules } from './checks/late-schedules.ts';
import { checkLeakedHandlers } from './checks/leaked-handlers.ts';
import { checkLiveWorkers } from './checks/live-workers.ts';
import { checkNodeVersion } from './checks/node-version.ts';
import { checkNotifications } from './checks/notifications.ts';
import { checkPausedDefinitions } from './checks/paused-definitions.ts';
import { checkPoisonedInstances } from './checks/poisoned-instances.ts';
import { checkPostgresVersion } from './checks/postgres-version.ts';
import { checkQueueAge } from './checks/queue-age.ts';
import { checkRetention } from './checks/retention.ts';
import { checkSchemaDrift } from './checks/schema-drift.ts';
import { checkStoreAccess } from './checks/store-access.ts';
import { checkSynchronousCommit } from './checks/synchronous-commit.ts';
import { checkUnclaimedWork } from './checks/unclaimed-work.ts';
import type { Check, DoctorReads, Examination, Finding, LimitsOfQueue } from './finding.ts';

/** All checks. Within a level, findings are reported in this order. */
const checks: readonly Check[] = [
  checkNodeVersion,
  checkStoreAccess,
  checkSchemaDrift,
  checkPostgresVersion,
  checkClockSkew,
  checkJournalMode,
  checkFileMode,
  checkSynchronousCommit,
  checkConnectionLimit,
  checkIdleTransactions,
  checkNotifications,
  checkLiveWorkers,
  checkUnclaimedWork,
  checkBlockedInstances,
  checkPoisonedInstances,
  checkLeakedHandlers,
  checkQueueAge,
  checkHeldByLimits,
  checkLateSchedules,
  checkPausedDefinitions,
  checkRetention,
  checkBloat,
];

const levels = ['problem', 'warning', 'note'] as const;

/** Derives all findings, the most urgent level first. */
export function findProblems(examination: Examination): readonly Finding[] {
  const findings = checks
    .flatMap((check) => check(examination))
    .map((finding) => withNote(finding, examination));
  return levels.flatMap((level) => findings.filter((one) => one.level === level));
}

/** Adds to a remedy which variable to set before it. */
function withNote(finding: Finding, { variableNote }: Examination): Finding {
  const { remedy } = finding;
  if (variableNote === undefined || !remedy.includes('"$PERDURE_STORE"')) return finding;
  return { ...finding, remedy: `${variableNote} ${remedy}` };
}

/** Whether a store with this report can be opened. */
export function canOpen({ access, schema }: StoreReport): boolean {
  return access.kind === 'writable' && schema?.kind === 'current';
}

const maxPoisoned = 20;
const maxLimits = 1_000;
const maxKeys = 100;

/** Reads what the checks need through a client, local or remote. */
export async function readForDoctor(
  client: ClientSurface,
  now: () => number = Date.now,
): Promise<DoctorReads> {
  const { attention, skewMs, skewErrorMs } = await readClock(client, now);
  const [workers, metrics, retention, limits, poisoned] = await Promise.all([
    client.workers(),
    client.systemMetrics(),
    client.retention.status(),
    readLimits(client, attention),
    client.list({ status: 'failed', failureCode: 'POISON' }, { limit: maxPoisoned }),
  ]);
  return {
    attention,
    workers,
    metrics,
    retention,
    limitsOfOldQueues: limits,
    poisoned: poisoned.items.map(({ id, name }) => ({ id, name })),
    hasMorePoisoned: poisoned.nextCursor !== undefined,
    skewMs,
    skewErrorMs,
  };
}

/** Reads the limits of the old queues, of which attention lists a few. */
async function readLimits(
  client: ClientSurface,
  { findings }: Attention,
): Promise<readonly LimitsOfQueue[]> {
  const queues = findings.flatMap((one) => (one.kind === 'oldQueues' ? one.queues : []));
  if (queues.length === 0) return [];
  const all = await client.limits.list({ limit: maxLimits });
  const found = all.items.filter((one) =>
    queues.some(({ kind, name }) => one.kind === kind && one.name === name),
  );
  return Promise.all(
    found.map(async (limits) => {
      const { kind, name } = limits;
      const { items } = await client.limits.keys({ kind, name }, { limit: maxKeys });
      return { ...limits, holdsKey: items.some(({ heldBy }) => heldBy !== undefined) };
    }),
  );
}

/** Reads the findings of the store, whose time is the clock of the store at some moment of the call. */
async function readClock(
  client: ClientSurface,
  now: () => number,
): Promise<{
  readonly attention: Attention;
  readonly skewMs: number;
  readonly skewErrorMs: number;
}> {
  const before = now();
  const attention = await client.attention();
  const halfMs = (now() - before) / 2;
  return { attention, skewMs: attention.at - (before + halfMs), skewErrorMs: halfMs };
}
