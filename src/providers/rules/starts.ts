import { isTerminal, type InstanceStatus } from '../../model/status.ts';
import type { StoredMessage } from '../../model/message.ts';
import { isDefaultChildId } from '../../model/values/child-id.ts';
import { parseJson } from '../../model/values/payload.ts';
import type { CreateResult, NewInstance } from '../contract/instances.ts';
import type { NewTask } from '../contract/tasks.ts';
import type { NewChild } from '../contract/turn.ts';

/** The attributes by which a repeated start is recognized. */
interface Start {
  readonly kind: 'orchestration' | 'activity' | 'task';
  readonly name: string;
  readonly inputHash: string;
}

/** The result of a start whose id is taken: a repeat of the first start, or a conflict with another. */
export function existingStart(
  existing: Start,
  wanted: Start,
): { readonly kind: 'exists' } | { readonly kind: 'conflict'; readonly name: string } {
  const isSame =
    existing.kind === wanted.kind &&
    existing.name === wanted.name &&
    existing.inputHash === wanted.inputHash;
  return isSame ? { kind: 'exists' } : { kind: 'conflict', name: existing.name };
}

/**
 * What a start does whose id is taken.
 * - `exists`: returns the instance
 * - `raise`: raises its event at the instance
 * - `replace`: terminates the instance, and starts its next execution
 * - `conflict`: changes nothing
 */
export type ExistingStartPlan = 'exists' | 'raise' | 'replace' | 'conflict';

/** Decides what a start does whose id is taken. */
export function planExistingStart(
  existing: Start & { readonly incarnation: string },
  wanted: Pick<NewInstance, 'name' | 'inputHash' | 'incarnation' | 'event' | 'onConflict'>,
): ExistingStartPlan {
  const isSame = existing.kind === 'orchestration' && existing.name === wanted.name;
  if (!isSame) return 'conflict';
  if (wanted.event !== undefined) return 'raise';
  if (wanted.onConflict === 'terminateExisting') {
    return existing.incarnation === wanted.incarnation ? 'exists' : 'replace';
  }
  const isKept = wanted.onConflict === 'useExisting' || existing.inputHash === wanted.inputHash;
  return isKept ? 'exists' : 'conflict';
}

/** Decides what a task with `onConflict` does whose id is taken. */
export function planExistingTask(
  existing: Start & { readonly incarnation: string },
  wanted: Pick<NewTask, 'name' | 'inputHash' | 'incarnation' | 'onConflict'>,
): Exclude<ExistingStartPlan, 'raise'> {
  if (existing.kind !== 'task' || existing.name !== wanted.name) return 'conflict';
  if (wanted.onConflict === 'terminateExisting') {
    return existing.incarnation === wanted.incarnation ? 'exists' : 'replace';
  }
  const isKept = wanted.onConflict === 'useExisting' || existing.inputHash === wanted.inputHash;
  return isKept ? 'exists' : 'conflict';
}

/** Whether a turn starts this instance after its own writes: it may find, message or replace another instance. */
export function isIdentifiedChild({ event, onConflict }: NewChild): boolean {
  return event !== undefined || onConflict !== undefined;
}

/** The start of a detached instance, as that of a client. */
export function toDetachedStart(child: NewChild): NewInstance {
  const { instanceId, incarnation, name, version, inputHash, start } = child;
  const { tags, lane, headers, timeoutMs, delayMs, runAt, event, onConflict } = child;
  return {
    instanceId,
    incarnation,
    name,
    version,
    inputHash,
    start,
    ...(tags !== undefined && { tags }),
    ...(lane !== undefined && { lane }),
    ...(headers !== undefined && { headers }),
    ...(timeoutMs !== undefined && { timeoutMs }),
    ...(delayMs !== undefined && { delayMs }),
    ...(runAt !== undefined && { runAt }),
    ...(event !== undefined && { event }),
    ...(onConflict !== undefined && { onConflict }),
  };
}

/** The reply to the starting instance. Throws if the store rejected the start, so that the turn does not commit. */
export function detachedReply(
  starter: { readonly instanceId: string },
  child: NewChild,
  result: CreateResult,
): StoredMessage | null {
  if (result.kind === 'refused') throw result.error;
  // It has replaced itself: its next execution has not made this call.
  if (result.kind === 'created' && child.instanceId === starter.instanceId) return null;
  if (result.kind === 'conflict') return child.ifTaken;
  const event = result.kind === 'created' ? undefined : result.event;
  const rejected = event === 'over' || event === 'full' ? child.ifRejected?.[event] : undefined;
  return rejected ?? child.ifStarted ?? null;
}

/** Whether a child may replace the instance that has its id: an earlier child of the same execution and name. */
export function mayReplaceChild(
  existing: {
    readonly name: string;
    readonly parentInstanceId: string | null;
    readonly parentExecutionId: number | null;
  },
  child: Pick<NewChild, 'name' | 'onConflict'>,
  parent: { readonly instanceId: string; readonly executionId: number },
): boolean {
  return (
    child.onConflict === 'terminateExisting' &&
    existing.name === child.name &&
    existing.parentInstanceId === parent.instanceId &&
    existing.parentExecutionId === parent.executionId
  );
}

/** The reason of a termination by a start with `terminateExisting`. */
export const replacedReason = 'replaced by a new start';

/** Adds the ids that children of earlier executions have: a call with one of them gets a generated id. */
export function withTakenChildIds(
  start: StoredMessage,
  instanceId: string,
  childIds: readonly string[],
): StoredMessage {
  const takenChildIds = childIds.filter((id) => !isDefaultChildId(instanceId, id));
  if (takenChildIds.length === 0) return start;
  // Not decoded: with a codec, only the client and the workers can read the payload.
  const fields = parseJson(start.data) as Readonly<Record<string, unknown>>;
  return { ...start, data: JSON.stringify({ ...fields, takenChildIds }) };
}

/** The times of a new task run, in whole milliseconds. */
export interface TaskTimes {
  /** When it may start. `null`: immediately. */
  readonly runAt: number | null;
  readonly expiresAt: number | null;
}

/** Converts the durations of a new task run to times, for a run created at `now` by the store's clock. */
export function taskTimes(task: NewTask, now: number): TaskTimes {
  const { delayMs, expiresInMs } = task;
  const runAt = delayMs === undefined ? task.runAt : now + delayMs;
  const expiresAt =
    expiresInMs === undefined ? task.expiresAt : Math.max(runAt ?? now, now) + expiresInMs;
  return { runAt: wholeOrNull(runAt), expiresAt: wholeOrNull(expiresAt) };
}

function wholeOrNull(time: number | undefined): number | null {
  return time === undefined ? null : Math.ceil(time);
}

/** The status in which a start with `terminateExisting` leaves the execution that it replaces. */
export function replacedStatus({ status }: { readonly status: InstanceStatus }): InstanceStatus {
  return isTerminal(status) ? status : 'terminated';
}
