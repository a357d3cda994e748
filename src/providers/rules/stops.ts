import type { CancellationType } from '../../model/cancel.ts';
import { isTerminal, type InstanceStatus } from '../../model/status.ts';
import { isClaimed, type Flag } from './claims.ts';

/**
 * What a cancel request does to an instance.
 * - `none`: nothing, because it has ended or was asked before
 * - `cancelRun`: cancels the item of a task run; without one left the run is `canceled`, else `canceling`
 * - `end`: makes an orchestration that never ran `canceled`
 * - `request`: makes it `canceling`, with a `cancel` message and a clean-up limit
 */
export type CancelPlan = 'none' | 'cancelRun' | 'end' | 'request';

/** Decides what a cancel request does to an instance. */
export function planCancel(instance: {
  readonly status: InstanceStatus;
  readonly isTask: Flag;
}): CancelPlan {
  const { status } = instance;
  if (status !== 'pending' && status !== 'running') return 'none';
  if (instance.isTask) return 'cancelRun';
  return status === 'pending' ? 'end' : 'request';
}

/**
 * What a terminate does to an instance.
 * - `none`: nothing, because it has ended
 * - `cancelItems`: its end as canceled is recorded, so only its remaining items are canceled
 * - `end`: makes it `terminated`
 */
export type TerminatePlan = 'none' | 'cancelItems' | 'end';

/** Decides what a terminate does to an instance. */
export function planTerminate(instance: {
  readonly status: InstanceStatus;
  readonly closingReason: string | null;
}): TerminatePlan {
  if (isTerminal(instance.status)) return 'none';
  return instance.closingReason === null ? 'end' : 'cancelItems';
}

/**
 * Who cancels work items: a turn (`operation`), a cancel request, the end of their execution, or a terminate.
 * A request does not reach shielded items. Only a terminate reaches items past their point of no return.
 */
export type CancelScope = 'operation' | 'request' | 'end' | 'terminate';

/** The columns of a work item that decide what a cancel does to it. */
export interface CancelableItem {
  readonly lockToken: string | null;
  readonly lockedUntil: number | null;
  readonly cancellation: CancellationType;
  readonly shielded: Flag;
  readonly pointOfNoReturn: Flag;
  readonly cancelRequested: Flag;
  readonly cancelRequestedAt: number | null;
}

/**
 * What a cancel does to a work item.
 * - `ignore`: nothing, because the cancel does not reach it
 * - `keep`: nothing, because it was asked before; the first request is kept
 * - `remove`: deletes it, because no worker holds it
 * - `flag`: records the request and delivers it to the worker that holds the item
 * - `record`: records the request without delivering it, because the item is past its point of no return
 */
export type ItemCancelPlan = 'ignore' | 'keep' | 'remove' | 'flag' | 'record';

/** Decides what a cancel does to a work item. */
export function planItemCancel(
  item: CancelableItem,
  scope: CancelScope,
  now: number,
): ItemCancelPlan {
  const isReached = item.cancellation !== 'abandon' && !(scope === 'request' && item.shielded);
  if (!isReached) return 'ignore';
  const isStoppable = scope === 'terminate' || !item.pointOfNoReturn;
  if (isStoppable && !isClaimed(item, now)) return 'remove';
  const wasAsked = scope === 'terminate' ? item.cancelRequested : item.cancelRequestedAt !== null;
  if (wasAsked) return 'keep';
  return isStoppable ? 'flag' : 'record';
}
