import { decodeActivityOptions } from '../../model/work-item-options.ts';
import type { CancelTrigger } from '../../model/failures/errors.ts';
import { decodeFailure, type Failure } from '../../model/failures/failure.ts';
import { decodePayload } from '../../model/values/payload.ts';
import type { RunningItem } from '../../providers/contract/cancellation.ts';
import type { PendingItem } from '../../providers/contract/inspection.ts';
import type { Provider } from '../../providers/contract/provider.ts';
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
  const { input, pending } = details;
  const shown = { ...info, ...(pending.length > 0 && { pending: pending.map(toPendingWork) }) };
  if (input === null) return shown;
  try {
    return { ...shown, input: decodePayload(input) };
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
  const pending = (details?.pending ?? []).map(toPendingWork);
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
  return own.map(toPendingWork);
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
   * The limit stored with the call of an activity. Absent for tasks and for calls without `retry`: only the definition
   * has their limit.
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
}

/** A failure without stack, details and causes. */
export interface FailureSummary {
  readonly name: string;
  /** Cut to 1,000 characters. */
  readonly message: string;
  readonly code?: string;
}

const maxMessageLength = 1_000;

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
    ...(kind === 'activity' && readMaxAttempts(item.options)),
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
  };
}

function toExpired({ worker, at }: NonNullable<PendingItem['expired']>) {
  return { at, ...(worker !== null && { worker }) };
}

function readMaxAttempts(options: string | null): { readonly maxAttempts?: number } {
  try {
    const { retry } = decodeActivityOptions(options);
    const limit = retry?.maxAttempts ?? undefined;
    return limit === undefined ? {} : { maxAttempts: limit };
  } catch {
    return {};
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
    return { heartbeat: decodePayload(heartbeat) };
  } catch {
    return {};
  }
}
