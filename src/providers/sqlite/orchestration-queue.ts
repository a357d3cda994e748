import { LockLostError } from '../../model/errors.ts';
import { isTerminal } from '../../model/status.ts';
import type {
  FetchedMessage,
  FetchOrchestrationItemsParams,
  OrchestrationAbandon,
  OrchestrationAck,
  OrchestrationItem,
  OrchestrationQueue,
  Runnable,
} from '../orchestration-queue.ts';
import type { CommitResult } from '../turn.ts';
import { chooseDue } from '../choose-due.ts';
import type { Scope } from './group-commit.ts';
import type { DueInstance } from './instance-locks.ts';
import { parentOf, type InstanceRow } from './instance-rows.ts';
import { formatToken } from '../lock-token.ts';
import type { Store } from './store.ts';

const defaultMaxMessages = 1_000;

/** Claims, acks and releases of instances. */
export function createOrchestrationQueue(store: Store): OrchestrationQueue {
  return {
    fetchOrchestrationItems: (params) =>
      store.fetch({
        ...params,
        operation: 'fetchOrchestrationItems',
        topic: 'orchestrations',
        nextAt: (now) => nextAt(store, params, now),
        claim: (scope) => claim(store, scope, params),
      }),

    readHistory: (params) =>
      store.read('readHistory', () => params.map((one) => store.history.read(one))),

    ackOrchestrationItems: (acks) =>
      store.write('ackOrchestrationItems', acks, (scope, one) => ack(store, scope, one)),

    abandonOrchestrationItems: (abandons) =>
      store.write('abandonOrchestrationItems', abandons, (scope, one) =>
        abandon(store, scope, one),
      ),

    renewOrchestrationLocks: (lockTokens, extendMs) =>
      store.write('renewOrchestrationLocks', lockTokens, ({ now }, token) =>
        store.locks.renew(token, now, now + Math.ceil(extendMs)),
      ),
  };
}

function ack(store: Store, scope: Scope, { lockToken, messageKeys, turn }: OrchestrationAck) {
  const result = scope.isolate('ackOrchestrationItems', (): CommitResult => {
    const row = store.instances.getHeld(lockToken, scope.now);
    if (row === undefined) {
      return { ok: false, error: new LockLostError('ackOrchestrationItems') };
    }
    const target = { ...row, hasLockRow: true };
    const error = store.turns.refusal(target, turn, 'ackOrchestrationItems');
    if (error !== undefined) return { ok: false, error };
    // The end of an instance takes all of its messages.
    if (!isTerminal(turn.outcome.status)) store.messages.delete(target.instanceKey, messageKeys);
    return { ok: true, claimed: store.turns.commit(scope, target, turn) };
  });
  return result.ok ? result.value : result;
}

function abandon(store: Store, scope: Scope, abandon: OrchestrationAbandon): boolean {
  const { lockToken, delayMs, giveBackClaim, blocked } = abandon;
  const { now } = scope;
  const instanceKey = store.locks.heldBy(lockToken, now);
  if (instanceKey === undefined) return false;
  store.locks.hold({ instanceKey, delayMs, giveBackClaim, blocked, now });
  // Another build may take at once what this one holds back.
  scope.effects.due('orchestrations', blocked === undefined ? now + delayMs : now);
  return true;
}

/** When the next instance that this worker can run is due; the past means now. */
function nextAt(store: Store, params: FetchOrchestrationItemsParams, now: number): number {
  const { runnable, buildId } = params;
  let next = store.locks.firstCleanupAt();
  for (const definitionKey of definitionKeys(store, runnable)) {
    next = Math.min(next, store.locks.firstNextAt(definitionKey));
    if (buildId !== undefined && next > now) {
      const blocked = store.locks.selectBlocked({ definitionKey, buildId, now, max: 1 });
      if (blocked.length > 0) next = now;
    }
  }
  return next;
}

function claim(store: Store, scope: Scope, params: FetchOrchestrationItemsParams) {
  const items: OrchestrationItem[] = [];
  for (const due of selectDue(store, scope, params)) {
    const item = claimOne(store, due, { ...params, now: scope.now });
    if (item !== undefined) items.push(item);
  }
  if (items.length > 0) scope.effects.due('orchestrations', scope.now + params.lockMs);
  return items;
}

function selectDue(store: Store, scope: Scope, params: FetchOrchestrationItemsParams) {
  const { max, runnable, buildId } = params;
  const { now } = scope;
  const keys = definitionKeys(store, runnable);
  const select = (suspect: boolean, max: number): DueInstance[] =>
    keys.flatMap((definitionKey) => store.locks.selectDue({ definitionKey, suspect, now, max }));
  const blocked =
    buildId === undefined
      ? []
      : keys.flatMap((definitionKey) =>
          store.locks.selectBlocked({ definitionKey, buildId, now, max }),
        );
  return chooseDue({
    max,
    // One whose clean-up has expired is ended without its code, so it cannot kill its process.
    trusted: [
      ...select(false, max),
      ...blocked.filter(({ claims }) => claims < 2),
      ...store.locks.selectCleanupDue(now, max),
    ],
    suspects: () => [...select(true, 1), ...blocked.filter(({ claims }) => claims >= 2)],
    keyOf: ({ instanceKey }) => instanceKey,
  });
}

function claimOne(
  store: Store,
  { instanceKey, claims }: DueInstance,
  params: FetchOrchestrationItemsParams & { readonly now: number },
): OrchestrationItem | undefined {
  const { now, lockMs, maxMessages = defaultMaxMessages } = params;
  const instance = store.instances.getFull(instanceKey);
  if (instance === undefined || isTerminal(instance.status) || instance.closingReason !== null) {
    // Nobody is left to read them.
    store.messages.deleteAll(instanceKey);
    store.locks.delete(instanceKey);
    return undefined;
  }
  const messages = readMessages(store, instance, now, maxMessages);
  if (messages.length === 0) {
    store.locks.correct(instanceKey);
    return undefined;
  }
  const { name, version } = store.definitions.get(instance.definitionKey);
  return {
    instanceKey,
    instanceId: instance.instanceId,
    incarnation: instance.incarnation,
    executionId: instance.executionId,
    name,
    version,
    parent: parentOf(instance),
    lockToken: formatToken(instanceKey, store.locks.claim(instanceKey, now + Math.ceil(lockMs))),
    claims: claims + 1,
    lastTurn: instance.lastTurn,
    historyLength: instance.historyLength,
    nowMs: now,
    messages,
  };
}

/** The visible messages; where they are cut short, the one that ends a canceling instance comes first if it is due. */
function readMessages(
  store: Store,
  { instanceKey, status }: InstanceRow,
  now: number,
  max: number,
): readonly FetchedMessage[] {
  const messages = store.messages.readVisible(instanceKey, now, max);
  if (status !== 'canceling' || messages.length < max) return messages;
  const expired = store.messages.readCleanupExpired(instanceKey, now);
  if (expired === undefined) return messages;
  const others = messages.filter(({ messageKey }) => messageKey !== expired.messageKey);
  return [expired, ...others.slice(0, max - 1)];
}

function definitionKeys(
  { definitions }: Store,
  runnable: readonly Runnable[] | undefined,
): readonly number[] {
  return runnable === undefined
    ? definitions.keysOf(['orchestration'])
    : definitions.findAll('orchestration', runnable);
}
