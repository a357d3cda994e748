import { LockLostError } from '../../../model/failures/errors.ts';
import { isStepGuard } from '../../../model/message.ts';
import { isTerminal } from '../../../model/status.ts';
import type {
  FetchedMessage,
  FetchOrchestrationItemsParams,
  HeldMessages,
  InstanceHold,
  OrchestrationAbandon,
  OrchestrationAck,
  OrchestrationItem,
  OrchestrationQueue,
} from '../../contract/orchestration-queue.ts';
import type { CommitResult } from '../../contract/turn.ts';
import { chooseDue, isClaimed } from '../../rules/claims.ts';
import { isUnchangedSince, turnError } from '../../rules/turns.ts';
import type { Scope, StoreAccess } from '../batches/group-commit.ts';
import type { DueInstance, InstanceLocks } from '../tables/instance-locks.ts';
import {
  parentOf,
  type FullRow,
  type InstanceRow,
  type InstanceRows,
} from '../tables/instance-rows.ts';
import { formatToken } from '../../shared/lock-token.ts';
import type { Definitions } from '../tables/definitions.ts';
import type { History } from '../tables/history.ts';
import type { Messages } from '../tables/messages.ts';
import type { Turns } from '../instances/turns.ts';
import type { BeginLimits } from '../limits/begin-limits.ts';

/** The parts of the store that an orchestration queue uses. */
export interface OrchestrationQueueParts extends StoreAccess {
  readonly beginLimits: BeginLimits;
  readonly definitions: Definitions;
  readonly history: History;
  readonly instances: InstanceRows;
  readonly locks: InstanceLocks;
  readonly messages: Messages;
  readonly turns: Turns;
}

const defaultMaxMessages = 1_000;
// Bounds how many new instances of limited orchestrations one claim sorts into lanes.
const maxRounds = 20;

/** Claims, acks and releases instances. */
export function createOrchestrationQueue(store: OrchestrationQueueParts): OrchestrationQueue {
  return {
    fetchOrchestrationItems: (params) =>
      store.fetch({
        ...params,
        operation: 'fetchOrchestrationItems',
        topic: 'orchestrations',
        key: JSON.stringify(['orchestrations', params.runnable]),
        nextAt: (now) => nextAt(store, params, now),
        claim: (scope) => claim(store, scope, params),
      }),

    readHistory: (params) =>
      store.read('readHistory', () => params.map((one) => store.history.read(one))),

    ackOrchestrationItems: (acks) =>
      store.write('ackOrchestrationItems', acks, (scope, one) => ackInstance(store, scope, one)),

    readHeldMessages: (lockTokens) =>
      store.read('readHeldMessages', () => {
        const now = store.now();
        return lockTokens.map((token) => readHeld(store, token, now));
      }),

    abandonOrchestrationItems: (abandons) =>
      store.write('abandonOrchestrationItems', abandons, (scope, one) =>
        abandon(store, scope, one),
      ),

    holdInstances: (holds) =>
      store.write('holdInstances', holds, (scope, one) => hold(store, scope, one)),

    renewOrchestrationLocks: (lockTokens, extendMs) =>
      store.write('renewOrchestrationLocks', lockTokens, ({ now }, token) =>
        store.locks.renew(token, now, now + Math.ceil(extendMs)),
      ),
  };
}

/** Commits the turn of a claimed instance. */
export function ackInstance(
  store: OrchestrationQueueParts,
  scope: Scope,
  { lockToken, messageKeys, turn, keep }: OrchestrationAck,
): CommitResult {
  const result = scope.isolate('ackOrchestrationItems', (): CommitResult => {
    const row = store.instances.getHeld(lockToken, scope.now);
    if (row === undefined) {
      return { ok: false, error: new LockLostError('ackOrchestrationItems') };
    }
    const target = { ...row, hasLockRow: true };
    const error = turnError(target, turn, 'ackOrchestrationItems');
    if (error !== undefined) return { ok: false, error };
    // The end of an instance deletes all of its messages.
    if (!isTerminal(turn.outcome.status)) store.messages.delete(target.instanceKey, messageKeys);
    return { ok: true, ...store.turns.commit(scope, target, turn, keep) };
  });
  return result.ok ? result.value : result;
}

function readHeld(
  { locks, messages }: OrchestrationQueueParts,
  token: string,
  nowMs: number,
): HeldMessages | undefined {
  const key = locks.heldBy(token, nowMs);
  if (key === undefined) return undefined;
  const visible = messages.readVisible(key, nowMs, defaultMaxMessages + 1);
  const nextAt = messages.nextVisibleAt(key, nowMs);
  return {
    messages: visible.filter((message) => !isStepGuard(message)),
    nextInMs: nextAt === null ? null : nextAt - nowMs,
    nowMs,
  };
}

function abandon(
  store: OrchestrationQueueParts,
  scope: Scope,
  abandon: OrchestrationAbandon,
): boolean {
  const { lockToken, delayMs, giveBackClaim, evenIfExpired, blocked } = abandon;
  const { now } = scope;
  const instanceKey = store.locks.heldBy(lockToken, now, { evenIfExpired });
  if (instanceKey === undefined) return false;
  const dueAt = store.locks.hold({ instanceKey, delayMs, giveBackClaim, blocked, now });
  scope.effects.due('orchestrations', dueAt);
  return true;
}

function hold(store: OrchestrationQueueParts, scope: Scope, one: InstanceHold): boolean {
  const { instanceKey, delayMs, blocked } = one;
  const { now } = scope;
  const row = store.instances.get(instanceKey);
  if (row === undefined || isTerminal(row.status) || !isUnchangedSince(row, one)) return false;
  const lock = store.locks.get(instanceKey);
  if (isClaimed(lock, now)) return false;
  const { definitionKey } = row;
  const dueAt = store.locks.holdFree({ instanceKey, definitionKey, delayMs, blocked, now });
  scope.effects.due('orchestrations', dueAt);
  return true;
}

/** When the next instance that this worker can run is due. A past time means now. */
function nextAt(
  store: OrchestrationQueueParts,
  params: FetchOrchestrationItemsParams,
  now: number,
): number {
  const { runnable, buildId } = params;
  const { claimable, paused } = store.definitions.findByPause('orchestration', runnable);
  if (store.beginLimits.canAdmit(store.beginLimits.gates({}, runnable))) return now;
  let next = Math.min(store.locks.firstCleanupAt(), store.locks.firstCancelingAt(paused));
  for (const definitionKey of claimable) {
    next = Math.min(next, store.locks.firstNextAt(definitionKey));
    if (buildId !== undefined && next > now) {
      const blocked = store.locks.selectBlocked({ definitionKey, buildId, now, max: 1 });
      if (blocked.length > 0) next = now;
    }
  }
  return next;
}

function claim(
  store: OrchestrationQueueParts,
  scope: Scope,
  params: FetchOrchestrationItemsParams,
): readonly OrchestrationItem[] {
  const { now } = scope;
  const { lockMs, maxMessages = defaultMaxMessages, worker = null } = params;
  const chosen = selectWithPlaces(store, scope, params);
  if (chosen.length === 0) return [];
  const keys = chosen.map(({ instanceKey }) => instanceKey);
  const rows = new Map(store.instances.getAll(keys).map((row) => [row.instanceKey, row]));
  const visible = readVisible(store, keys, { now, max: maxMessages });
  const claimable: Claimable[] = [];
  for (const due of chosen) {
    const { instanceKey } = due;
    const row = rows.get(instanceKey);
    const messages = visible.get(instanceKey);
    if (row === undefined || isTerminal(row.status) || row.closingReason !== null) {
      // An ended instance reads no messages.
      store.messages.deleteAll(instanceKey);
      store.locks.delete(instanceKey);
    } else if (messages === undefined) store.locks.correct(instanceKey);
    else {
      const ordered = expiredFirst(store, row, messages, { now, max: maxMessages });
      claimable.push({ due, row, messages: withStart(store, row, ordered, maxMessages) });
    }
  }
  if (claimable.length === 0) return [];
  const lockedUntil = now + Math.ceil(lockMs);
  const secret = store.locks.claim(
    claimable.map(({ row }) => row.instanceKey),
    { now, until: lockedUntil, worker },
  );
  scope.effects.due('orchestrations', lockedUntil);
  return claimable.map((one) => toItem(store, one, secret, now));
}

/** Due instances that have a place, or need none. Those beyond a limit wait. */
function selectWithPlaces(
  store: OrchestrationQueueParts,
  scope: Scope,
  params: FetchOrchestrationItemsParams,
): readonly DueInstance[] {
  const { beginLimits } = store;
  const gates = beginLimits.gates(scope, params.runnable);
  if (gates.size === 0) return selectDue(store, scope, params);
  beginLimits.admit(gates, params.max);
  for (let round = 0; ; round += 1) {
    const due = selectDue(store, scope, params);
    const placed = due.filter(({ instanceKey }) => !beginLimits.holdBack(gates, instanceKey));
    const isFull = placed.length === due.length || round === maxRounds;
    if (isFull) return placed;
    beginLimits.admit(gates, params.max);
  }
}

/** A due instance with visible messages. */
interface Claimable {
  readonly due: DueInstance;
  readonly row: FullRow;
  readonly messages: readonly FetchedMessage[];
}

function selectDue(
  store: OrchestrationQueueParts,
  scope: Scope,
  params: FetchOrchestrationItemsParams,
) {
  const { max, runnable, buildId } = params;
  const { now } = scope;
  const { claimable: keys, paused } = store.definitions.findByPause('orchestration', runnable);
  const select = (suspect: boolean, max: number): DueInstance[] =>
    keys.flatMap((definitionKey) => store.locks.selectDue({ definitionKey, suspect, now, max }));
  const blocked =
    buildId === undefined
      ? []
      : keys.flatMap((definitionKey) =>
          store.locks.selectBlocked({ definitionKey, buildId, now, max }),
        );
  // A cancel passes the pause of a definition, so that the code can clean up.
  const others = [...blocked, ...store.locks.selectCanceling(paused, now, max)];
  return chooseDue({
    max,
    // An instance with an expired clean-up limit is ended without running its code, so it cannot crash the process.
    trusted: [
      ...select(false, max),
      ...others.filter(({ claims }) => claims < 2),
      ...store.locks.selectCleanupDue(now, max),
    ],
    suspects: [...select(true, 1), ...others.filter(({ claims }) => claims >= 2)],
    keyOf: ({ instanceKey }) => instanceKey,
  });
}

function toItem(
  store: OrchestrationQueueParts,
  { due, row, messages }: Claimable,
  secret: string,
  nowMs: number,
): OrchestrationItem {
  const { name, version } = store.definitions.get(row.definitionKey);
  return {
    instanceKey: row.instanceKey,
    instanceId: row.instanceId,
    incarnation: row.incarnation,
    executionId: row.executionId,
    name,
    version,
    parent: parentOf(row),
    lockToken: formatToken(row.instanceKey, secret),
    claims: due.claims + 1,
    lastTurn: row.lastTurn,
    historyLength: row.historyLength,
    nowMs,
    messages,
  };
}

interface Reading {
  readonly now: number;
  /** Maximum messages to read per instance. */
  readonly max: number;
}

/** The visible messages by instance. Instances without any are absent. */
function readVisible(
  { messages }: OrchestrationQueueParts,
  instanceKeys: readonly number[],
  { now, max }: Reading,
): ReadonlyMap<number, readonly FetchedMessage[]> {
  // One statement for all, unless the limit per instance could apply.
  const all = messages.readVisibleOfAll(instanceKeys, now, max);
  if (all !== undefined) return all;
  const byInstance = new Map<number, readonly FetchedMessage[]>();
  for (const instanceKey of instanceKeys) {
    const own = messages.readVisible(instanceKey, now, max);
    if (own.length > 0) byInstance.set(instanceKey, own);
  }
  return byInstance;
}

/** Puts a due `cleanupExpired` message first where the messages are limited. */
function expiredFirst(
  store: OrchestrationQueueParts,
  { instanceKey, status }: InstanceRow,
  messages: readonly FetchedMessage[],
  { now, max }: Reading,
): readonly FetchedMessage[] {
  if (status !== 'canceling' || messages.length < max) return messages;
  const expired = store.messages.readCleanupExpired(instanceKey, now);
  if (expired === undefined) return messages;
  const others = messages.filter(({ messageKey }) => messageKey !== expired.messageKey);
  return [expired, ...others.slice(0, max - 1)];
}

/** Adds the start message if a clock set back has hidden it behind others. Without it no turn can run. */
function withStart(
  store: OrchestrationQueueParts,
  { instanceKey, historyLength }: InstanceRow,
  messages: readonly FetchedMessage[],
  max: number,
): readonly FetchedMessage[] {
  if (historyLength > 0 || messages.some(({ kind }) => kind === 'start')) return messages;
  const start = store.messages.readStart(instanceKey);
  return start === undefined ? messages : [start, ...messages.slice(0, max - 1)];
}
