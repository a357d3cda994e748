import { decodeEvent } from '../../../src/model/event.ts';
import { isTerminal } from '../../../src/model/status.ts';
import type { TreeDeletionResult } from '../../../src/providers/contract/management.ts';
import type { PauseResult } from '../../../src/providers/contract/pausing.ts';
import type { HandBackResult, TurnAck } from '../../../src/providers/contract/work-queue.ts';
import type { ExpectedDeletion, ModelItem, ReferenceModel } from './reference-model.ts';
import { pairs, type StoreCall } from './store-call.ts';
import { isDeepStrictEqual } from 'node:util';

interface HandBack {
  readonly lockToken: string;
  readonly unstarted?: boolean;
}

/** Applies a committed call to the model, and reports results that differ from the expected ones. */
export function observeCall(model: ReferenceModel, call: StoreCall, now: number): void {
  switch (call.method) {
    case 'createInstances':
      for (const [instance, result] of pairs(call.args[0], call.result)) {
        if (result.kind === 'created') model.create(instance, result.claimed);
        else
          model.expect(result.kind === 'exists', `creating ${instance.instanceId}: ${result.kind}`);
      }
      return;

    case 'enqueueMessages':
      for (const [{ instanceId, message, key }, result] of pairs(call.args[0], call.result)) {
        const instance = model.instances.get(instanceId);
        const isRepeated = key !== undefined && instance?.eventKeys.has(key) === true;
        const expected =
          instance === undefined
            ? 'missing'
            : isRepeated
              ? 'repeated'
              : isTerminal(instance.status) || instance.closing
                ? 'over'
                : 'enqueued';
        model.expect(
          result === expected,
          `a message to ${instanceId} is ${result}, not ${expected}`,
        );
        if (result !== 'enqueued' || instance === undefined) continue;
        if (key !== undefined) instance.eventKeys.add(key);
        if (message.kind === 'eventRaised') {
          model.deliver(instance, { kind: 'event', execution: null, operation: null });
        }
      }
      return;

    case 'requestCancel':
      for (const [request, result] of pairs(call.args[0], call.result)) {
        const expected = model.once(request, () => model.cancel(request));
        const what = `cancel of ${request.instanceId} returned ${JSON.stringify(result)}`;
        model.expect(isDeepStrictEqual(result, expected), what);
      }
      return;

    case 'terminate':
      for (const [request, result] of pairs(call.args[0], call.result)) {
        const { instanceId, reason, tree } = request;
        const expected = model.once(request, () => model.terminate(instanceId, reason, tree));
        const what = `terminate of ${instanceId} returned ${JSON.stringify(result)}, not ${JSON.stringify(expected)}`;
        model.expect(isDeepStrictEqual(result, expected), what);
      }
      return;

    case 'pauseInstances':
    case 'resumeInstances':
      for (const [{ instanceId }, result] of pairs<{ readonly instanceId: string }, PauseResult>(
        call.args[0],
        call.result,
      )) {
        const expected = model.setPaused(instanceId, call.method === 'pauseInstances');
        const what = `${call.method} of ${instanceId} returned ${JSON.stringify(result)}, not ${JSON.stringify(expected)}`;
        model.expect(isDeepStrictEqual(result, expected), what);
      }
      return;

    case 'deleteInstancesAtomic':
      for (const [tree, result] of pairs(call.args[0], call.result)) {
        const expected = model.delete(tree);
        const what = `delete of ${tree.instanceIds.join()} returned ${JSON.stringify(result)}, not ${JSON.stringify(expected)}`;
        model.expect(isMatch(result, expected), what);
      }
      return;

    case 'pruneExecutionsAtomic':
      for (const [prune, { queueMessagesDeleted: _, ...result }] of pairs(
        call.args[0],
        call.result,
      )) {
        const expected = model.prune(prune);
        const what = `prune of ${prune.instanceId} returned ${JSON.stringify(result)}, not ${JSON.stringify(expected)}`;
        model.expect(isDeepStrictEqual(result, expected), what);
      }
      return;

    case 'retryInstances':
      for (const [retry, result] of pairs(call.args[0], call.result)) {
        const expected = model.retry(retry);
        const what = `retry of ${retry.source.instanceId} returned ${JSON.stringify(result)}, not ${JSON.stringify(expected)}`;
        model.expect(isDeepStrictEqual(result, expected), what);
      }
      return;

    case 'takeOverClaims': {
      const expected = model.takeOver(call.args[0]);
      const what = `takeover of ${call.args[0].join()} ended ${call.result} leases, not ${expected}`;
      return model.expect(call.result === expected, what);
    }

    case 'fetchOrchestrationItems':
    case 'ackOrchestrationItems':
    case 'abandonOrchestrationItems':
    case 'renewOrchestrationLocks':
      return observeInstanceCall(model, call, now);

    default:
      return observeItemCall(model, call, now);
  }
}

function isMatch(result: TreeDeletionResult, expected: ExpectedDeletion): boolean {
  if (result.kind !== 'deleted' || expected.kind !== 'deleted') {
    return result.kind === expected.kind;
  }
  const { queueMessagesDeleted: _, ...counts } = result.counts;
  return isDeepStrictEqual(counts, expected.counts);
}

function observeInstanceCall(
  model: ReferenceModel,
  call: Extract<StoreCall, { method: `${string}Orchestration${string}` }>,
  now: number,
): void {
  // `afterLease`: also valid after the lease, unless the instance was claimed again.
  const holderOf = (token: string, what: string, afterLease = false) => {
    const instance = [...model.instances.values()].find(({ lock }) => lock?.token === token);
    const isHeld = instance?.lock != null && (afterLease || instance.lock.until > now);
    model.expect(isHeld, `${what} with a token that holds nothing`);
    return isHeld ? instance : undefined;
  };
  switch (call.method) {
    case 'fetchOrchestrationItems':
      for (const { instanceId, lockToken, messages } of call.result) {
        const instance = model.instances.get(instanceId);
        const isFree = instance?.lock == null || instance.lock.until <= now;
        const goesOn = instance !== undefined && !isTerminal(instance.status) && !instance.closing;
        model.expect(isFree, `${instanceId} was claimed while another worker held it`);
        model.expect(instance?.paused !== true, `${instanceId} was claimed while it is paused`);
        model.expect(goesOn && messages.length > 0, `${instanceId} was claimed without a reason`);
        if (instance === undefined) continue;
        instance.lock = { token: lockToken, until: now + call.args[0].lockMs };
        instance.claimed = instance.delivered.length;
        model.claims.set(lockToken, instanceId);
      }
      return;
    case 'ackOrchestrationItems':
      for (const [{ lockToken, turn }, result] of pairs(call.args[0], call.result)) {
        if (!result.ok) continue;
        const instance = holderOf(lockToken, 'a turn was acked');
        const lock = instance?.lock ?? null;
        if (instance) model.commitTurn(instance, turn, result.claimed);
        if (instance && result.kept === true) instance.lock = lock;
      }
      return;
    case 'abandonOrchestrationItems':
      for (const [entry, result] of pairs(call.args[0], call.result)) {
        const { lockToken, evenIfExpired } = entry;
        const what = 'an instance was handed back';
        const instance = result ? holderOf(lockToken, what, evenIfExpired) : undefined;
        if (instance) instance.lock = null;
      }
      return;
    case 'renewOrchestrationLocks':
      for (const [lockToken, result] of pairs(call.args[0], call.result)) {
        const instance = result ? holderOf(lockToken, 'an instance was renewed') : undefined;
        if (instance?.lock) instance.lock.until = now + call.args[1];
      }
  }
}

function observeItemCall(
  model: ReferenceModel,
  call: Exclude<
    StoreCall,
    {
      method:
        | 'createInstances'
        | 'enqueueMessages'
        | 'requestCancel'
        | 'terminate'
        | 'pauseInstances'
        | 'resumeInstances'
        | 'deleteInstancesAtomic'
        | 'pruneExecutionsAtomic'
        | 'retryInstances'
        | 'takeOverClaims'
        | `${string}Orchestration${string}`;
    }
  >,
  now: number,
): void {
  switch (call.method) {
    case 'fetchWorkItems':
      for (const { instanceId, executionId, operation, lockToken, cancel } of call.result) {
        const key = `${executionId}.${operation}`;
        const what = `${key} of ${instanceId} was claimed`;
        const item = model.instances.get(instanceId)?.items.get(key);
        if (item === undefined) {
          model.expect(false, `${what}, although it should be deleted`);
          continue;
        }
        model.expect(!model.isHeld(item), `${what} while another worker held it`);
        // The claim of a canceled item only ends it.
        const mayBeClaimed = !item.instance.paused || item.flagged;
        model.expect(mayBeClaimed, `${what} while it is paused`);
        const how = item.flagged ? 'without its cancel' : 'as canceled';
        model.expect((cancel !== null) === item.flagged, `${what} ${how}`);
        item.token = lockToken;
        item.leaseUntil = now + call.args[0].lockMs;
        item.takenOver = false;
        model.tokens.set(lockToken, item);
      }
      return;
    case 'ackWorkItems':
      for (const [{ lockToken, outcome }, result] of pairs(call.args[0], call.result)) {
        const item = result.ok ? model.heldBy(lockToken, 'an item was acked') : undefined;
        if (item === undefined) continue;
        if (outcome.kind === 'canceled' && outcome.leaked) item.instance.leaked += 1;
        if (outcome.kind !== 'skipped') model.settle(item, outcome.kind);
      }
      return;
    case 'ackTurns':
      for (const [ack, result] of pairs(call.args[0], call.result)) {
        if (result.ok) observeTurnAck(model, ack, result.claimed, now);
      }
      return;
    case 'renewWorkItemLocks':
      for (const [{ lockToken }, result] of pairs(call.args[0], call.result)) {
        const isDeleted = (model.deletedClaims.get(lockToken)?.until ?? 0) > now;
        const isTold = !result.held && result.deleted === true;
        model.expect(
          isTold === isDeleted,
          `a renewal ${isTold ? 'reports' : 'does not report'} a deletion`,
        );
        const item = result.held ? model.heldBy(lockToken, 'an item was renewed') : undefined;
        if (item === undefined || !result.held) continue;
        item.leaseUntil = now + call.args[1];
        const what = `${item.operation} of ${item.instance.id} is renewed`;
        const how = item.flagged ? 'without its cancel' : 'as canceled';
        model.expect((result.cancel !== null) === item.flagged, `${what} ${how}`);
      }
      return;
    case 'abandonWorkItems':
    case 'retryWorkItems':
      for (const [entry, result] of pairs<HandBack, HandBackResult>(call.args[0], call.result)) {
        const { lockToken, unstarted = false } = entry;
        const what = 'an item was handed back';
        const item = result !== false ? model.heldBy(lockToken, what, unstarted) : undefined;
        if (item?.flagged === true) model.settle(item, 'canceled');
        else if (item) {
          item.token = null;
          item.failedBefore ||= call.method === 'retryWorkItems';
        }
      }
      return;
    case 'markPointOfNoReturn': {
      const [token] = call.args;
      const item = model.tokens.get(token);
      const isHeld = item?.token === token && model.isHeld(item);
      const expected = !isHeld ? 'lost' : item.flagged ? 'canceled' : 'passed';
      model.expect(
        call.result.kind === expected,
        `a point of no return is ${call.result.kind}, not ${expected}`,
      );
      if (item && call.result.kind === 'passed') item.passed = true;
    }
  }
}

function observeTurnAck(
  model: ReferenceModel,
  { incarnation, executionId, lockTokens, timers = [], asOfMs = Infinity, turn }: TurnAck,
  claimed: Parameters<ReferenceModel['commitTurn']>[2],
  now: number,
): void {
  const items = lockTokens.map((token) => model.heldBy(token, 'a turn in memory was acked'));
  const held = items.filter((item): item is ModelItem => item !== undefined);
  // Found by incarnation, because a turn that fires timers may settle no item.
  const instance = [...model.instances.values()].find((one) => one.incarnation === incarnation);
  model.expect(
    instance !== undefined,
    'a turn in memory of an instance that does not exist was acked',
  );
  if (instance === undefined) return;
  const { id, status, execution, lock } = instance;
  model.expect(status === 'running', `a turn in memory of ${id} was acked while it was ${status}`);
  model.expect(!instance.paused, `a turn in memory of ${id} was acked while it is paused`);
  model.expect(execution === executionId, `a turn in memory of ${id} is of another execution`);
  model.expect(lock === null || lock.until <= now, `a turn in memory of ${id} passed a claim`);
  const failed = new Set<number>();
  for (const event of turn.events.map(decodeEvent)) {
    if (event.kind === 'activityFailed') failed.add(event.operation);
  }
  // A turn that fires timers leaves messages that came after its time. Its own outcomes go before them.
  const { delivered } = instance;
  const late = timers.length > 0 ? delivered.findIndex(({ at }) => at > asOfMs) : -1;
  const later = late < 0 ? [] : delivered.splice(late);
  for (const item of held) {
    model.expect(!item.flagged, `a turn in memory of ${id} acked an item that should stop`);
    model.settle(item, failed.has(item.operation) ? 'failed' : 'completed');
  }
  instance.claimed = delivered.length;
  model.commitTurn(instance, turn, claimed);
  delivered.push(...later);
}
