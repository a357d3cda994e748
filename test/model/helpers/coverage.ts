import { LockLostError } from '../../../src/model/failures/errors.ts';
import { isTerminal } from '../../../src/model/status.ts';
import type { TreeDeletionResult } from '../../../src/providers/contract/management.ts';
import type { Turn } from '../../../src/providers/contract/turn.ts';
import type { ModelInstance, ReferenceModel } from './reference-model.ts';
import { pairs, type StoreCall } from './store-call.ts';

/** The situations that the check must reach. */
export const situations = [
  'a pending instance is canceled',
  'a running instance is canceled',
  'an instance is canceled twice',
  'an ended instance is canceled',
  'a canceling instance is terminated',
  'a closing instance is terminated',
  'a fast-path turn is acked after a cancel',
  'a turn is acked after a terminate',
  'a turn schedules work after a cancel',
  'a turn starts a child after a cancel',
  'a turn completes after a cancel',
  'a turn fails after a cancel',
  'a turn continues as new after a cancel',
  'an execution begins canceled',
  'a clean-up exceeds its limit',
  'an instance is closed while its work runs',
  'work completes after its cancel',
  'work fails after its cancel',
  'work is retried after its cancel',
  'work is retried before its cancel',
  'work is acked after its lease expired',
  'work passes its point of no return before the cancel',
  'work is denied its point of no return',
  'work is ended by a worker that does not hold it',
  'a handler leaks',
  'a child is canceled with its parent',
  'an active instance is deleted',
  'a canceling instance is deleted',
  'an ended instance is deleted',
  'an active instance is not deleted without force',
  'a child is deleted with its parent',
  'a deleted instance is canceled',
  'a deleted id is reused',
  'a turn is acked after a delete',
  'a fast-path turn is acked after a delete',
  'work is acked after a delete',
  'work is retried after a delete',
  'work is notified of a delete',
  'an ack of a deleted instance meets its successor',
  'an instance is paused',
  'an instance is paused while its work runs',
  'an instance is resumed',
  'a paused instance is canceled',
  'a paused instance is terminated',
  'an ended instance is retried from its failure',
  'an ended instance is retried from its start',
  'an ended instance is retried while its work runs',
  'a retried instance is retried',
  'an instance that another retry started is retried',
  'a deleted instance is retried',
  'work of the execution before a retry is acked',
  'an execution is pruned',
  'an execution whose work runs is pruned',
] as const;

/** The situations that only takeovers lead to. */
export const takeoverSituations = [
  'a process without claims is taken over',
  'a process that holds work is taken over',
  'a process that holds work of a paused instance is taken over',
  'work that was taken over is claimed again',
  'a dead process acks work that was taken over',
  'a dead process acks a turn that was taken over',
] as const;

export type Situation = (typeof situations | typeof takeoverSituations)[number];

/** Counts the situations that the scenarios reached: a check that reaches none cannot fail. */
export class Coverage {
  readonly counts = new Map<Situation, number>(
    [...situations, ...takeoverSituations].map((situation) => [situation, 0]),
  );

  /** The tokens of claims that were taken over. */
  readonly #taken = new Set<string>();

  /** Observes a call before the model applies it. */
  observe(call: StoreCall, model: ReferenceModel): void {
    switch (call.method) {
      case 'createInstances':
        for (const { instanceId } of call.args[0]) {
          if (model.gone.has(instanceId)) this.#add('a deleted id is reused');
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
          const instance = model.instances.get(instanceId);
          if (instance?.paused === true) this.#add('a paused instance is canceled');
          this.#cancel(instance, changed);
          if (!changed && status !== null) {
            this.#add(
              isTerminal(status)
                ? 'an ended instance is canceled'
                : 'an instance is canceled twice',
            );
          }
        }
        return;
      case 'pauseInstances':
        for (const [{ instanceId }, { changed }] of pairs(call.args[0], call.result)) {
          const items = [...(model.instances.get(instanceId)?.items.values() ?? [])];
          if (!changed) continue;
          this.#add('an instance is paused');
          if (items.some((item) => model.isHeld(item)))
            this.#add('an instance is paused while its work runs');
        }
        return;
      case 'retryInstances':
        for (const [{ source, start }, { kind }] of pairs(call.args[0], call.result)) {
          const instance = model.instances.get(source.instanceId);
          if (kind === 'missing') this.#add('a deleted instance is retried');
          if (kind !== 'retried') {
            const isSecond = instance?.from === source.executionId + 1;
            if (isSecond) this.#add('an instance that another retry started is retried');
            continue;
          }
          const from = start?.kept === undefined ? 'start' : 'failure';
          this.#add(`an ended instance is retried from its ${from}`);
          if ((instance?.past.length ?? 0) > 0) this.#add('a retried instance is retried');
          const items = [...(instance?.items.values() ?? [])];
          if (items.some((item) => model.isHeld(item))) {
            this.#add('an ended instance is retried while its work runs');
          }
        }
        return;
      case 'takeOverClaims':
        return this.#takeOver(call.args[0], call.result, model);
      case 'resumeInstances':
        if (call.result.some(({ changed }) => changed)) this.#add('an instance is resumed');
        return;
      case 'terminate':
        for (const [{ instanceId }] of pairs(call.args[0], call.result)) {
          const instance = model.instances.get(instanceId);
          if (instance?.paused === true) this.#add('a paused instance is terminated');
          if (instance?.closing === true) this.#add('a closing instance is terminated');
          else if (instance?.status === 'canceling')
            this.#add('a canceling instance is terminated');
        }
        return;
      case 'ackTurns':
        for (const [ack, result] of pairs(call.args[0], call.result)) {
          const item = model.tokens.get(ack.lockTokens[0] ?? '');
          const isLate = item?.instance.status === 'canceling';
          if (this.#isDeleted(ack.lockTokens[0] ?? '', model)) {
            this.#add('a fast-path turn is acked after a delete');
          } else if (!result.ok && isLate) this.#add('a fast-path turn is acked after a cancel');
        }
        return;
      case 'ackOrchestrationItems':
        for (const [{ lockToken, turn }, result] of pairs(call.args[0], call.result)) {
          if (!result.ok) {
            if (this.#taken.has(lockToken)) {
              this.#add('a dead process acks a turn that was taken over');
            }
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
          if (!result.ok && this.#taken.has(lockToken)) {
            this.#add('a dead process acks work that was taken over');
          }
          if (item !== undefined && item.execution < item.instance.from && result.ok) {
            this.#add('work of the execution before a retry is acked');
          }
          if (this.#isDeleted(lockToken, model)) this.#add('work is acked after a delete');
          else if (!result.ok) this.#add('work is acked after its lease expired');
          else if (outcome.kind === 'canceled' && outcome.leaked) this.#add('a handler leaks');
          else if (item?.flagged === true && outcome.kind !== 'canceled') {
            this.#add(`work ${outcome.kind === 'failed' ? 'fails' : 'completes'} after its cancel`);
          }
        }
        return;
      case 'retryWorkItems':
        for (const [{ lockToken }, result] of pairs(call.args[0], call.result)) {
          if (this.#isDeleted(lockToken, model)) this.#add('work is retried after a delete');
          const item = model.tokens.get(lockToken);
          if (result && item?.flagged === true) this.#add('work is retried after its cancel');
        }
        return;
      case 'renewWorkItemLocks':
        for (const result of call.result) {
          if (!result.held && result.deleted === true) this.#add('work is notified of a delete');
        }
        return;
      case 'markPointOfNoReturn':
        if (call.result.kind === 'canceled') this.#add('work is denied its point of no return');
        return;
      case 'fetchWorkItems':
        for (const { cancel, instanceId, executionId, operation } of call.result) {
          const item = model.instances.get(instanceId)?.items.get(`${executionId}.${operation}`);
          if (item?.takenOver === true) this.#add('work that was taken over is claimed again');
          if (cancel !== null) this.#add('work is ended by a worker that does not hold it');
        }
        return;
      default:
    }
  }

  #takeOver(processIds: readonly string[], count: number, model: ReferenceModel): void {
    if (count === 0) this.#add('a process without claims is taken over');
    const isTaken = (token: string): boolean =>
      processIds.some((id) => token.split('.')[1]?.startsWith(id) === true);
    for (const { lock, items, paused } of model.instances.values()) {
      if (lock !== null && isTaken(lock.token)) this.#taken.add(lock.token);
      for (const item of items.values()) {
        if (item.token === null || !model.isHeld(item) || !isTaken(item.token)) continue;
        this.#taken.add(item.token);
        this.#add('a process that holds work is taken over');
        if (paused) this.#add('a process that holds work of a paused instance is taken over');
      }
    }
  }

  #cancel(instance: ModelInstance | undefined, changed: boolean): void {
    if (instance === undefined || !changed) return;
    this.#add(`a ${instance.status === 'pending' ? 'pending' : 'running'} instance is canceled`);
    for (const item of instance.items.values()) {
      if (item.passed) this.#add('work passes its point of no return before the cancel');
      if (item.failedBefore && item.token === null) {
        this.#add('work is retried before its cancel');
      }
    }
  }

  #delete(root: ModelInstance | undefined, kind: TreeDeletionResult['kind']): void {
    if (root === undefined) return;
    if (kind === 'running') this.#add('an active instance is not deleted without force');
    if (kind !== 'deleted') return;
    const { status } = root;
    if (isTerminal(status)) this.#add('an ended instance is deleted');
    else if (status === 'canceling') this.#add('a canceling instance is deleted');
    else this.#add('an active instance is deleted');
  }

  #prune(instance: ModelInstance | undefined, count: number): void {
    if (instance === undefined || count === 0) return;
    this.#add('an execution is pruned');
    const upTo = instance.prunedUpTo + count;
    for (const { execution, token } of instance.items.values()) {
      if (execution <= upTo && token !== null) this.#add('an execution whose work runs is pruned');
    }
  }

  /** Whether the item of a token was deleted. Also counts tokens whose id is in use again. */
  #isDeleted(token: string, model: ReferenceModel): boolean {
    const claim = model.deletedClaims.get(token);
    if (claim === undefined) return false;
    if (model.instances.has(claim.instanceId)) {
      this.#add('an ack of a deleted instance meets its successor');
    }
    return true;
  }

  #lostTurn(token: string, model: ReferenceModel): void {
    if (this.#isDeleted(token, model)) return this.#add('a turn is acked after a delete');
    const instance = model.instances.get(model.claims.get(token) ?? '');
    if (instance?.status === 'terminated') this.#add('a turn is acked after a terminate');
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
      if (outcome.cleanupSkipped) this.#add('a clean-up exceeds its limit');
      const isHeld = [...instance.items.values()].some(({ token }) => token !== null);
      if (isHeld) this.#add('an instance is closed while its work runs');
    }
    if (!isLate) return;
    if (turn.workItems.some(({ shielded }) => !shielded))
      this.#add('a turn schedules work after a cancel');
    if (turn.children.length > 0) this.#add('a turn starts a child after a cancel');
    if (outcome.status === 'completed') this.#add('a turn completes after a cancel');
    if (outcome.status === 'failed') this.#add('a turn fails after a cancel');
    if (outcome.status === 'continuedAsNew') this.#add('a turn continues as new after a cancel');
  }

  #add(situation: Situation): void {
    this.counts.set(situation, (this.counts.get(situation) ?? 0) + 1);
  }
}
