import { LockLostError } from '../../src/model/failures/errors.ts';
import { isTerminal } from '../../src/model/status.ts';
import type { TreeDeletionResult } from '../../src/providers/contract/management.ts';
import type { Turn } from '../../src/providers/contract/turn.ts';
import type { ModelInstance, ReferenceModel } from './reference-model.ts';
import { pairs, type StoreCall } from './store-call.ts';

/** The meetings that the check is for. */
export const meetings = [
  'a pending instance is canceled',
  'a running instance is canceled',
  'an instance is canceled twice',
  'an instance that is over is canceled',
  'a canceling instance is terminated',
  'a closing instance is terminated',
  'a turn in memory comes after a cancel',
  'a turn comes after a terminate',
  'a turn schedules work after the cancel came',
  'a turn starts a child after the cancel came',
  'a turn completes after the cancel came',
  'a turn fails after the cancel came',
  'a turn continues as new after the cancel came',
  'an execution begins canceled',
  'a clean-up is cut off',
  'an instance is closed while its work runs',
  'work completes after it was asked to stop',
  'work fails after it was asked to stop',
  'work is retried after it was asked to stop',
  'work is retried before it is asked to stop',
  'work is acked after its lease',
  'work passes its point of no return before the cancel',
  'work is refused its point of no return',
  'work is ended by another than its holder',
  'a handler leaks',
  'a child is canceled with its parent',
  'an instance that goes on is deleted',
  'a canceling instance is deleted',
  'an instance that is over is deleted',
  'an instance that goes on is not deleted without force',
  'a child is deleted with its parent',
  'a deleted instance is canceled',
  'a deleted id is used again',
  'a turn comes after a delete',
  'a turn in memory comes after a delete',
  'work is acked after a delete',
  'work is retried after a delete',
  'work is told of a delete',
  'an ack of a former life meets the next one',
  'an execution is pruned',
  'an execution whose work runs is pruned',
] as const;

export type Meeting = (typeof meetings)[number];

/** Counts the meetings that scenarios have led to: a check that meets nothing finds nothing. */
export class Coverage {
  readonly counts = new Map<Meeting, number>(meetings.map((meeting) => [meeting, 0]));

  /** Looks at a call before the model has heard of it. */
  observe(call: StoreCall, model: ReferenceModel): void {
    switch (call.method) {
      case 'createInstances':
        for (const { instanceId } of call.args[0]) {
          if (model.gone.has(instanceId)) this.#add('a deleted id is used again');
        }
        return;
      case 'deleteInstancesAtomic':
        for (const [{ instanceIds }, { kind }] of pairs(call.args[0], call.result)) {
          this.#delete(model.instances.get(instanceIds.at(-1) ?? ''), kind);
          if (kind === 'deleted' && instanceIds.length > 1) {
            this.#add('a child is deleted with its parent');
          }
        }
        return;
      case 'pruneExecutionsAtomic':
        for (const [{ instanceId }, { executionsDeleted }] of pairs(call.args[0], call.result)) {
          this.#prune(model.instances.get(instanceId), executionsDeleted);
        }
        return;
      case 'requestCancel':
        for (const [{ instanceId }, { changed, status }] of pairs(call.args[0], call.result)) {
          if (model.gone.has(instanceId)) this.#add('a deleted instance is canceled');
          this.#cancel(model.instances.get(instanceId), changed);
          if (!changed && status !== null) {
            this.#add(
              isTerminal(status)
                ? 'an instance that is over is canceled'
                : 'an instance is canceled twice',
            );
          }
        }
        return;
      case 'terminate':
        for (const [{ instanceId }] of pairs(call.args[0], call.result)) {
          const instance = model.instances.get(instanceId);
          if (instance?.closing === true) this.#add('a closing instance is terminated');
          else if (instance?.status === 'canceling')
            this.#add('a canceling instance is terminated');
        }
        return;
      case 'ackTurns':
        for (const [ack, result] of pairs(call.args[0], call.result)) {
          const item = model.tokens.get(ack.lockTokens[0] ?? '');
          const isLate = item?.instance.status === 'canceling';
          if (this.#isBereft(ack.lockTokens[0] ?? '', model)) {
            this.#add('a turn in memory comes after a delete');
          } else if (!result.ok && isLate) this.#add('a turn in memory comes after a cancel');
        }
        return;
      case 'ackOrchestrationItems':
        for (const [{ lockToken, turn }, result] of pairs(call.args[0], call.result)) {
          if (!result.ok) {
            if (result.error instanceof LockLostError) this.#lostTurn(lockToken, model);
            continue;
          }
          const instance = [...model.instances.values()].find(
            ({ lock }) => lock?.token === lockToken,
          );
          if (instance !== undefined) this.#turn(instance, turn);
        }
        return;
      case 'ackWorkItems':
        for (const [{ lockToken, outcome }, result] of pairs(call.args[0], call.result)) {
          const item = model.tokens.get(lockToken);
          if (this.#isBereft(lockToken, model)) this.#add('work is acked after a delete');
          else if (!result.ok) this.#add('work is acked after its lease');
          else if (outcome.kind === 'canceled' && outcome.leaked) this.#add('a handler leaks');
          else if (item?.flagged === true && outcome.kind !== 'canceled') {
            this.#add(
              `work ${outcome.kind === 'failed' ? 'fails' : 'completes'} after it was asked to stop`,
            );
          }
        }
        return;
      case 'retryWorkItems':
        for (const [{ lockToken }, result] of pairs(call.args[0], call.result)) {
          if (this.#isBereft(lockToken, model)) this.#add('work is retried after a delete');
          const item = model.tokens.get(lockToken);
          if (result && item?.flagged === true)
            this.#add('work is retried after it was asked to stop');
        }
        return;
      case 'renewWorkItemLocks':
        for (const result of call.result) {
          if (!result.held && result.deleted === true) this.#add('work is told of a delete');
        }
        return;
      case 'markPointOfNoReturn':
        if (call.result.kind === 'canceled') this.#add('work is refused its point of no return');
        return;
      case 'fetchWorkItems':
        for (const { cancel } of call.result) {
          if (cancel !== null) this.#add('work is ended by another than its holder');
        }
        return;
      default:
    }
  }

  #cancel(instance: ModelInstance | undefined, changed: boolean): void {
    if (instance === undefined || !changed) return;
    this.#add(`a ${instance.status === 'pending' ? 'pending' : 'running'} instance is canceled`);
    for (const item of instance.items.values()) {
      if (item.passed) this.#add('work passes its point of no return before the cancel');
      if (item.failedBefore && item.token === null) {
        this.#add('work is retried before it is asked to stop');
      }
    }
  }

  #delete(root: ModelInstance | undefined, kind: TreeDeletionResult['kind']): void {
    if (root === undefined) return;
    if (kind === 'running') this.#add('an instance that goes on is not deleted without force');
    if (kind !== 'deleted') return;
    const { status } = root;
    if (isTerminal(status)) this.#add('an instance that is over is deleted');
    else if (status === 'canceling') this.#add('a canceling instance is deleted');
    else this.#add('an instance that goes on is deleted');
  }

  #prune(instance: ModelInstance | undefined, count: number): void {
    if (instance === undefined || count === 0) return;
    this.#add('an execution is pruned');
    const upTo = instance.prunedUpTo + count;
    for (const { execution, token } of instance.items.values()) {
      if (execution <= upTo && token !== null) this.#add('an execution whose work runs is pruned');
    }
  }

  /** Whether what a token held was deleted; counts those whose id is in use again. */
  #isBereft(token: string, model: ReferenceModel): boolean {
    const bereft = model.bereft.get(token);
    if (bereft === undefined) return false;
    if (model.instances.has(bereft.instanceId)) {
      this.#add('an ack of a former life meets the next one');
    }
    return true;
  }

  #lostTurn(token: string, model: ReferenceModel): void {
    if (this.#isBereft(token, model)) return this.#add('a turn comes after a delete');
    const instance = model.instances.get(model.claims.get(token) ?? '');
    if (instance?.status === 'terminated') this.#add('a turn comes after a terminate');
  }

  #turn(instance: ModelInstance, turn: Turn): void {
    const { outcome } = turn;
    const isLate =
      instance.status === 'canceling' &&
      !turn.events.some(({ kind }) => kind === 'cancelRequested');
    const [first] = turn.events;
    if (first?.kind === 'executionStarted' && first.data.includes('"cancel":')) {
      this.#add('an execution begins canceled');
    }
    if (turn.childCancels.length > 0) this.#add('a child is canceled with its parent');
    if (outcome.status === 'canceled') {
      if (outcome.cleanupSkipped) this.#add('a clean-up is cut off');
      const isHeld = [...instance.items.values()].some(({ token }) => token !== null);
      if (isHeld) this.#add('an instance is closed while its work runs');
    }
    if (!isLate) return;
    if (turn.workItems.some(({ shielded }) => !shielded))
      this.#add('a turn schedules work after the cancel came');
    if (turn.children.length > 0) this.#add('a turn starts a child after the cancel came');
    if (outcome.status === 'completed') this.#add('a turn completes after the cancel came');
    if (outcome.status === 'failed') this.#add('a turn fails after the cancel came');
    if (outcome.status === 'continuedAsNew')
      this.#add('a turn continues as new after the cancel came');
  }

  #add(meeting: Meeting): void {
    this.counts.set(meeting, (this.counts.get(meeting) ?? 0) + 1);
  }
}
