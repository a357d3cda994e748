import { decodeActivityOptions } from '../../model/work-item-options.ts';
import type { CancelTrigger } from '../../model/failures/errors.ts';
import { decodeFailure, type Failure } from '../../model/failures/failure.ts';
import { readPayload } from '../../model/encoding/encoded-value.ts';
import type { RunningItem } from '../../providers/contract/cancellation.ts';
import type { PendingItem } from '../../providers/contract/inspection.ts';
import type { HoldingLimit } from '../../providers/contract/limits.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { WorkerRecord } from '../../providers/contract/workers.ts';
import { liveWorkers } from '../../providers/rules/workers.ts';
import { toInstanceInfo, type InstanceInfo } from './instance-info.ts';

/** Maximum pending entries of `get` and `history`. */
const maxShown = 20;
/** Maximum pending entries of `running`. */
const maxListed = 1_000;

/** Reads an instance with its input and its pending work; `undefined` for an unknown id. */
export async function inspectInstance(
  provider: Provider,
  instanceId: string,
): Promise<InstanceInfo | undefined> {
  const [record] = await provider.getInstances([instanceId]);
  if (record === undefined) return undefined;
  const [details, running] = await Promise.all([
    provider.inspectInstance({ instanceId, maxPending: maxShown }),
    record.status === 'canceling' ? provider.listRunningItems(instanceId) : undefined,
  ]);
  const info = { ...toInstanceInfo(record), ...(running !== undefined && { running }) };
  if (details === undefined) return info;
  const { input } = details;
  const pending = await toPendingList(provider, details.pending);
  const shown = { ...info, ...(pending.length > 0 && { pending }) };
  if (input === null) return shown;
  try {
    return { ...shown, input: readPayload(input) };
  } catch {
    return { ...shown, undecodable: [...(info.undecodable ?? []), 'input'] };
  }
}

/** Lists the first 1,000 pending entries, plus all that run; none for an unknown id. */
export async function listPendingWork(
  provider: Provider,
  instanceId: string,
): Promise<readonly PendingWork[]> {
  const details = await provider.inspectInstance({ instanceId, maxPending: maxListed });
  const pending = await toPendingList(provider, details?.pending ?? []);
  if (pending.length < maxListed) return pending;
  // Running entries beyond the first 1,000.
  const listed = new Set(pending.map(({ operation }) => operation));
  const running = await provider.listRunningItems(instanceId);
  return [...pending, ...running.filter(({ operation }) => !listed.has(operation)).map(toRunning)];
}

function toRunning({ worker, cancel, ...item }: RunningItem): PendingWork {
  return {
    ...item,
    kind: 'activity',
    state: 'running',
    ...(worker !== null && { worker }),
    ...(cancel !== null && { cancel }),
  };
}

/** Reads the pending work of one execution, for a page of its history. */
export async function pendingOfExecution(
  provider: Provider,
  instanceId: string,
  executionId: number,
): Promise<readonly PendingWork[]> {
  const details = await provider.inspectInstance({ instanceId, maxPending: maxShown });
  const own = (details?.pending ?? []).filter((item) => item.executionId === executionId);
  return toPendingList(provider, own);
}

/** An activity, a task run or its failure handler without an outcome. Times are milliseconds since the epoch. */
export interface PendingWork {
  readonly kind: 'activity' | 'task' | 'onFail';
  readonly operation: number;
  readonly name: string;
  /** `queued`: before the first attempt. `running`: a worker holds it. `retrying`: between two attempts. */
  readonly state: 'queued' | 'running' | 'retrying';
  /** The current or next attempt, from 1. */
  readonly attempt: number;
  /**
   * The maximum number of attempts. The first of these that sets it: the call of an activity, the worker of the last
   * failed attempt, a live worker with the definition. Absent without `retry`, without a limit, and while no worker is
   * live before the first failure.
   */
  readonly maxAttempts?: number;
  /** Why the last attempt failed. */
  readonly lastFailure?: FailureSummary;
  /** When a worker may start the next attempt; absent while it runs. */
  readonly nextTryAt?: number;
  /** The last heartbeat of the handler, unless it is longer than 64 KiB. */
  readonly heartbeat?: unknown;
  /** When the last heartbeat was stored. */
  readonly heartbeatAt?: number;
  /** The worker that runs it. */
  readonly worker?: string;
  /** While it runs: when the worker claimed it, and when its lease expires. */
  readonly claimedAt?: number;
  readonly lockedUntil?: number;
  /** The lease of its last claim expired: the worker crashed or lost its connection. */
  readonly expired?: { readonly worker?: string; readonly at: number };
  /** It is past its point of no return: a cancel does not stop it. */
  readonly pointOfNoReturn?: true;
  /** A request to stop it. */
  readonly cancel?: { readonly reason: string; readonly trigger: CancelTrigger };
  /** The key of its run. Absent: none. */
  readonly key?: string;
  /** The limit of its definition that holds it back. Absent: none. */
  readonly limit?: LimitWait;
}

/** The limit that holds back work that is due. */
export interface LimitWait {
  /** `global`: places of the definition. `perKey`: places of its key. `rate`: starts in a period. */
  readonly by: HoldingLimit;
  /** The figure of the limit: places, or starts per period. */
  readonly max: number;
  /** Places in use, of the definition or of the key. */
  readonly running: number;
  /** With `rate`: when the next run may start. */
  readonly nextAt?: number;
  /** With `rate`, in `why()`: the period, and whether each key has its own rate. */
  readonly perMs?: number;
  readonly perKey?: boolean;
  /** Work with the same key that starts before it, counted up to 1,000. */
  readonly ahead: number;
}

/** A failure without stack, details and causes. */
export interface FailureSummary {
  readonly name: string;
  /** Cut to 1,000 characters. */
  readonly message: string;
  readonly code?: string;
}

const maxMessageLength = 1_000;

/** Decodes stored items, with the limits of attempts that live workers have registered. */
async function toPendingList(
  provider: Pick<Provider, 'listWorkers'>,
  items: readonly PendingItem[],
): Promise<readonly PendingWork[]> {
  return withAttemptLimits(items.map(toPendingWork), async () =>
    liveWorkers(await provider.listWorkers()),
  );
}

/** Adds the limits of attempts that the store has only in the registrations of workers. */
export async function withAttemptLimits(
  pending: readonly PendingWork[],
  readWorkers: () => Promise<readonly WorkerRecord[]>,
): Promise<readonly PendingWork[]> {
  if (!pending.some(needsLimit)) return pending;
  const workers = await readWorkers();
  return pending.map((work) => {
    const limit = needsLimit(work) ? registeredLimit(workers, work) : undefined;
    return limit === undefined ? work : { ...work, maxAttempts: limit };
  });
}

/** After a failure the store has the limit, or there is none. */
function needsLimit({ maxAttempts, attempt }: PendingWork): boolean {
  return maxAttempts === undefined && attempt === 1;
}

/** The limit of the worker that runs it, else of the worker that started last: a deploy may have changed it. */
function registeredLimit(
  workers: readonly WorkerRecord[],
  { kind, name, worker: holder }: PendingWork,
): number | undefined {
  const limits = workers.flatMap((worker) => {
    const found = worker.attemptLimits.find((one) => one.kind === kind && one.name === name);
    return found === undefined ? [] : [{ worker, maxAttempts: found.maxAttempts }];
  });
  limits.sort((a, b) => b.worker.startedAt - a.worker.startedAt);
  const own = limits.find(({ worker }) => worker.name === holder);
  return (own ?? limits[0])?.maxAttempts;
}

/** Decodes a stored item; leaves out damaged values. */
export function toPendingWork(item: PendingItem): PendingWork {
  const { kind, operation, name, failures, held, cancel, dueAt } = item;
  const idle = failures > 0 ? 'retrying' : 'queued';
  return {
    kind,
    operation,
    name,
    state: held === null ? idle : 'running',
    attempt: failures + 1,
    ...readMaxAttempts(item),
    ...(item.lastFailure !== null && { lastFailure: summarize(item.lastFailure) }),
    ...(held === null && { nextTryAt: dueAt }),
    ...(item.heartbeat !== null && decode(item.heartbeat)),
    ...(item.heartbeatAt !== null && { heartbeatAt: item.heartbeatAt }),
    ...(item.expired !== null && { expired: toExpired(item.expired) }),
    ...(item.pointOfNoReturn && { pointOfNoReturn: true }),
    ...(held !== null && {
      ...(held.worker !== null && { worker: held.worker }),
      claimedAt: held.claimedAt,
      lockedUntil: held.lockedUntil,
    }),
    ...(cancel !== null && { cancel }),
    ...toLane(item),
  };
}

function toLane({ lane, limitHold }: PendingItem): Pick<PendingWork, 'key' | 'limit'> {
  const key = lane !== null && lane !== '' && { key: lane };
  if (limitHold === null || limitHold.limit === null) return { ...key };
  const { limit: by, max, running, nextAt, ahead } = limitHold;
  const limit = { by, max: max ?? 0, running, ...(nextAt !== null && { nextAt }), ahead };
  return { ...key, limit };
}

function toExpired({ worker, at }: NonNullable<PendingItem['expired']>) {
  return { at, ...(worker !== null && { worker }) };
}

function readMaxAttempts({ kind, options, maxAttempts }: PendingItem): {
  readonly maxAttempts?: number;
} {
  const stored = maxAttempts === null ? {} : { maxAttempts };
  if (kind !== 'activity') return stored;
  try {
    const { retry } = decodeActivityOptions(options);
    if (retry === undefined) return stored;
    return retry.maxAttempts === null ? {} : { maxAttempts: retry.maxAttempts };
  } catch {
    return stored;
  }
}

/** Stands for a failure that is longer than a list reads. */
export const tooLarge: FailureSummary = {
  name: 'Error',
  message: 'The failure is too large to show.',
};

/** Decodes a stored failure, without its stack, details and causes. */
export function summarize(stored: string): FailureSummary {
  if (stored === '') return tooLarge;
  return summarizeFailure(decodeFailure(stored));
}

/** Shortens a failure for operators. */
export function summarizeFailure({ name, message, code }: Failure): FailureSummary {
  const shown =
    message.length <= maxMessageLength
      ? message
      : `${message.slice(0, maxMessageLength).toWellFormed()}…`;
  return { name, message: shown, ...(code !== undefined && { code }) };
}

function decode(heartbeat: string): { readonly heartbeat?: unknown } {
  try {
    return { heartbeat: readPayload(heartbeat) };
  } catch {
    return {};
  }
}
