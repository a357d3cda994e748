import { toCancelDetails, type CancelDetails } from '../../../model/cancel.ts';
import { encodeEvent, type HistoryEvent, type ParentRef } from '../../../model/event.ts';
import { platformFailure } from '../../../model/failures/failure.ts';
import { encodeMessage, type Message } from '../../../model/message.ts';
import { planCancel, planTerminate, type CancelScope } from '../../rules/stops.ts';
import type { Scope } from '../batches/group-commit.ts';
import type { History } from '../tables/history.ts';
import type { InstanceLocks } from '../tables/instance-locks.ts';
import {
  parentOf,
  type FullRow,
  type InstanceRows,
  type TurnTarget,
} from '../tables/instance-rows.ts';
import type { ItemCancels } from '../tables/item-cancels.ts';
import type { Messages } from '../tables/messages.ts';
import type { PauseRows } from '../tables/pause-rows.ts';
import type { StopRows } from '../tables/stop-rows.ts';
import type { TaskRuns } from '../tasks/task-runs.ts';

interface StopRequest extends CancelDetails {
  /** How long the orchestration may clean up. */
  readonly cleanupMs: number;
}

interface TerminateRequest extends StopRequest {
  readonly tree: boolean;
}

/** Cancels and terminates instances, for clients, turns and ended parents. */
export class InstanceStops {
  readonly #history: History;
  readonly #instances: InstanceRows;
  readonly #rows: StopRows;
  readonly #locks: InstanceLocks;
  readonly #messages: Messages;
  readonly #itemCancels: ItemCancels;
  readonly #pauseRows: PauseRows;
  readonly #taskRuns: TaskRuns;

  constructor(parts: {
    readonly history: History;
    readonly instances: InstanceRows;
    readonly stopRows: StopRows;
    readonly locks: InstanceLocks;
    readonly messages: Messages;
    readonly itemCancels: ItemCancels;
    readonly pauseRows: PauseRows;
    readonly taskRuns: TaskRuns;
  }) {
    this.#history = parts.history;
    this.#instances = parts.instances;
    this.#rows = parts.stopRows;
    this.#locks = parts.locks;
    this.#messages = parts.messages;
    this.#itemCancels = parts.itemCancels;
    this.#pauseRows = parts.pauseRows;
    this.#taskRuns = parts.taskRuns;
  }

  /** Cancels an instance. Returns whether that changed anything. */
  request(scope: Scope, row: FullRow, request: StopRequest): boolean {
    const plan = planCancel(row);
    if (plan !== 'none') this.#liftPause(row);
    if (plan === 'cancelRun') this.#taskRuns.cancel(scope, row, request);
    else if (plan === 'end') this.#cancelPending(scope, row, request);
    else if (plan === 'request') this.#requestCancel(scope, row, request);
    return plan !== 'none';
  }

  /**
   * Terminates an instance. Its children are canceled, or with `tree` all descendants are terminated.
   * Returns whether that changed anything.
   */
  terminate(scope: Scope, row: FullRow, request: TerminateRequest): boolean {
    if (planTerminate(row) === 'none') return false;
    if (row.isTask === 1) {
      this.#liftPause(row);
      this.#taskRuns.terminate(scope, row, request);
      return true;
    }
    let changed = this.#terminateOne(scope, row, request);
    const parents = [row];
    // In a damaged store an instance can be its own ancestor.
    const seen = new Set([row.instanceKey]);
    for (let parent = parents.pop(); parent !== undefined; parent = parents.pop()) {
      // The children of an ended child can still be cleaning up.
      const children = this.#childrenOf(parent.instanceId, 1, request.tree ? 'all' : 'live');
      for (const child of children) {
        if (seen.has(child.instanceKey)) continue;
        seen.add(child.instanceKey);
        if (request.tree) parents.push(child);
        const stopped = request.tree
          ? this.#terminateOne(scope, child, request)
          : this.request(scope, child, request);
        changed ||= stopped;
      }
    }
    return changed;
  }

  /** Cancels the items of an execution that has ended, without messages to it. */
  cancelItems(scope: Scope, target: TurnTarget, reason: string): void {
    this.#cancelItems(scope, 'end', target, reason);
  }

  /** Cancels the children of an execution that has ended. */
  requestChildren(scope: Scope, target: TurnTarget, request: StopRequest): void {
    for (const child of this.#childrenOf(target.instanceId, target.executionId)) {
      this.request(scope, child, request);
    }
  }

  /** Makes a closing instance `canceled`, unless an item of it is left. Returns whether it was closing. */
  finishClosing(scope: Scope, instanceKey: number): boolean {
    const row = this.#instances.getFull(instanceKey);
    if (row === undefined || row.closingReason === null) return false;
    if (this.#itemCancels.hasAttended(instanceKey)) return true;
    this.#rows.finishClosing(instanceKey, scope.now);
    this.#notifyParentOfCancel(scope, row, {
      reason: row.closingReason,
      ...(row.cancelTrigger !== null && { trigger: row.cancelTrigger }),
    });
    scope.effects.finished.push(row.instanceId);
    return true;
  }

  /** A request to stop ends a pause: the code may clean up, and its work may end. */
  #liftPause({ instanceKey, isPaused }: FullRow): void {
    if (isPaused === 1) this.#pauseRows.lift(instanceKey);
  }

  #cancelPending(scope: Scope, row: FullRow, request: StopRequest): void {
    const { now, effects } = scope;
    const { reason } = request;
    this.#rows.cancelPending(row.instanceKey, request, now);
    this.#record(row, { kind: 'executionCanceled', at: now, reason });
    this.#deleteMessagesAndLock(row.instanceKey);
    this.#notifyParentOfCancel(scope, row, request);
    effects.finished.push(row.instanceId);
  }

  #requestCancel(scope: Scope, row: FullRow, request: StopRequest): void {
    const { reason, cleanupMs, trigger = 'cancel' } = request;
    const { instanceKey, definitionKey, executionId } = row;
    const { now, effects } = scope;
    const cleanupAt = now + Math.ceil(cleanupMs);
    this.#rows.requestCancel(instanceKey, request, now);
    // Before the messages of canceled items, so that the code gets the request first.
    const message = encodeMessage({ kind: 'cancel', ...toCancelDetails(request) });
    this.#messages.insert(instanceKey, message, now);
    const items = { instanceKey, executionId, now, reason, trigger } as const;
    effects.addCancelRequests(this.#itemCancels.cancelRequested(items));
    const expired = encodeMessage({ kind: 'cleanupExpired', reason });
    this.#messages.insert(instanceKey, expired, cleanupAt);
    this.#locks.limitCleanup({ instanceKey, definitionKey, now, cleanupAt });
    effects.messages.add(instanceKey);
    effects.due('orchestrations', now);
  }

  #terminateOne(scope: Scope, row: FullRow, { reason, actor }: TerminateRequest): boolean {
    const { instanceKey, instanceId, executionId, historyLength } = row;
    const plan = planTerminate(row);
    if (plan === 'none') return false;
    this.#liftPause(row);
    if (plan === 'cancelItems') {
      const changed = this.#cancelItems(scope, 'terminate', row, reason) > 0;
      this.finishClosing(scope, instanceKey);
      return changed;
    }
    const { now } = scope;
    this.#rows.terminate({ instanceKey, reason, actor, now });
    // Event times never decrease within an execution, even if the clock was set back.
    const at = Math.max(now, this.#history.timeOf(instanceKey, executionId, historyLength));
    this.#record(row, { kind: 'executionTerminated', at, reason, actor });
    this.#deleteMessagesAndLock(instanceKey);
    this.#cancelItems(scope, 'terminate', row, reason);
    const message = `Instance ${JSON.stringify(instanceId)} was terminated: ${reason}`;
    const failure = platformFailure('INSTANCE_TERMINATED', message);
    this.#notifyParent(scope, row, (parent) => ({
      kind: 'childFailed',
      executionId: parent.executionId,
      operation: parent.operation,
      failure,
    }));
    scope.effects.finished.push(instanceId);
    return true;
  }

  /** Removes and flags items. Returns their number. */
  #cancelItems(
    { now, effects }: Scope,
    by: CancelScope & ('end' | 'terminate'),
    { instanceKey }: Pick<TurnTarget, 'instanceKey'>,
    reason: string,
  ): number {
    const items = { instanceKey, now, reason, trigger: 'cancel' } as const;
    const { count, flagged } = this.#itemCancels.cancelAll(by, items);
    effects.addCancelRequests(flagged);
    return count;
  }

  #childrenOf(
    instanceId: string,
    fromExecutionId: number,
    which: 'live' | 'all' = 'live',
  ): readonly FullRow[] {
    return this.#rows
      .selectChildren(instanceId, fromExecutionId, which)
      .map((key) => this.#instances.getFull(key))
      .filter((row) => row !== undefined);
  }

  #record({ instanceKey, executionId, historyLength }: FullRow, event: HistoryEvent): void {
    const { kind, at, data, payload } = encodeEvent(event);
    this.#history.insert([[instanceKey, executionId, historyLength + 1, kind, at, data, payload]]);
  }

  #deleteMessagesAndLock(instanceKey: number): void {
    this.#messages.deleteAll(instanceKey);
    this.#locks.delete(instanceKey);
  }

  #notifyParentOfCancel(
    scope: Scope,
    row: FullRow,
    { reason, trigger }: Pick<CancelDetails, 'reason' | 'trigger'>,
  ): void {
    this.#notifyParent(scope, row, ({ executionId, operation }) => ({
      kind: 'childCanceled',
      executionId,
      operation,
      reason,
      ...(trigger !== undefined && { trigger }),
    }));
  }

  #notifyParent(scope: Scope, row: FullRow, message: (parent: ParentRef) => Message): void {
    const parent = parentOf(row);
    if (parent === null) return;
    const receiver = this.#instances.findReceiver(parent.instanceId);
    const waits = receiver?.isClosed === 0 && receiver.executionId === parent.executionId;
    if (!waits) return;
    this.#messages.insert(receiver.instanceKey, encodeMessage(message(parent)), scope.now);
    if (this.#locks.touch(receiver.instanceKey, receiver.definitionKey, scope.now))
      scope.effects.messages.add(receiver.instanceKey);
    scope.effects.due('orchestrations', scope.now);
  }
}
