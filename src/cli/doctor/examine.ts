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
import type { Check, DoctorReads, Examination, Finding } from './finding.ts';

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
  const findings = checks.flatMap((check) => check(examination));
  return levels.flatMap((level) => findings.filter((one) => one.level === level));
}

/** Whether a store with this report can be opened. */
export function canOpen({ access, schema }: StoreReport): boolean {
  return access.kind === 'writable' && schema?.kind === 'current';
}

const maxPoisoned = 20;
const maxLimits = 1_000;

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
    client.limits.list({ limit: maxLimits }),
    client.list({ status: 'failed', failureCode: 'POISON' }, { limit: maxPoisoned }),
  ]);
  return {
    attention,
    workers,
    metrics,
    retention,
    definitionLimits: limits.items,
    poisoned: poisoned.items.map(({ id, name }) => ({ id, name })),
    hasMorePoisoned: poisoned.nextCursor !== undefined,
    skewMs,
    skewErrorMs,
  };
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
