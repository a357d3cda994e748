import type { CancelTrigger } from '../../model/failures/errors.ts';
import type { RunningItem } from '../contract/cancellation.ts';
import type { PendingItem } from '../contract/inspection.ts';
import type { CancelInfo } from '../contract/work-queue.ts';

/** The operation of a task run's work item. */
export const taskOperation = 1;
/** The operation of the work item that runs a task's on-fail handler. */
export const onFailOperation = 2;

/** The cancel request of a work item. */
export interface CancelColumns {
  /** `null` without a request, and for a request that came after the point of no return. */
  readonly cancelRequestedAt: number | null;
  readonly cancelTrigger: CancelTrigger | null;
  readonly cancelReason: string | null;
}

/** A claimed work item, for operators. */
export interface RunningRow extends Omit<CancelColumns, 'cancelRequestedAt'> {
  readonly operation: number;
  readonly definitionKey: number;
  readonly failures: number;
  readonly lockedUntil: number;
  readonly worker: string | null;
  readonly claimedAt: number;
}

/** Returns the kind of a work item. */
export function itemKind(isTask: boolean, operation: number): PendingItem['kind'] {
  if (!isTask) return 'activity';
  return operation === onFailOperation ? 'onFail' : 'task';
}

/** Returns the cancel request that a handler gets, or `null`. */
export function toCancelInfo(row: CancelColumns): CancelInfo | null {
  const { cancelRequestedAt: requestedAt, cancelTrigger: trigger, cancelReason } = row;
  return requestedAt === null || trigger === null
    ? null
    : { reason: cancelReason ?? '', requestedAt, trigger };
}

/** Returns the cancel request that operators see, delivered or not, or `null`. */
export function toCancelRecord({
  cancelTrigger: trigger,
  cancelReason: reason,
}: Omit<CancelColumns, 'cancelRequestedAt'>): RunningItem['cancel'] {
  return trigger === null || reason === null ? null : { reason, trigger };
}

/** Converts a claimed work item for operators. */
export function toRunningItem(row: RunningRow, name: string): RunningItem {
  const { operation, failures, lockedUntil, worker, claimedAt } = row;
  const cancel = toCancelRecord(row);
  return { operation, name, attempt: failures + 1, lockedUntil, worker, claimedAt, cancel };
}
