import { LockLostError } from '../../../model/failures/errors.ts';
import { isTerminal, type TerminalStatus } from '../../../model/status.ts';
import type { CommitResult } from '../../contract/turn.ts';
import type {
  FetchWorkItemsParams,
  HandBackResult,
  RenewResult,
  TurnAck,
  WorkItem,
  WorkItemAck,
  WorkItemRenewal,
  WorkQueue,
} from '../../contract/work-queue.ts';
import { enoughTurns } from '../batches/batching.ts';
import { Changes, type Batch } from '../batches/changes.ts';
import type { ClaimedItem } from './due-items.ts';
import { Effects } from '../../shared/effects.ts';
import { areFiredTimers } from '../../rules/fired-timers.ts';
import { isLive } from '../tables/instance-locks.ts';
import { formatToken, parseToken } from '../../shared/lock-token.ts';
import type { VisibleMessage } from '../tables/messages.ts';
import type { Scope } from '../driver/scope.ts';
import type { Store } from '../store.ts';
import { isRun, settleRun } from '../tasks/tasks.ts';
import { addressees, refusal, type TurnCommit } from '../instances/turns.ts';
import { outcomeMessage } from '../../rules/outcome-message.ts';
import type { Settlement } from '../tables/settlement.ts';
import {
  onFailOperation,
  toCancelInfo,
  type HandedBack,
  type HeldItem,
} from '../tables/work-items.ts';

/** Claims, acks and releases of work items. */
export function createWorkQueue(store: Store): WorkQueue {
  const renew = store.batching({
    operation: 'renewWorkItemLocks',
    run: async (scope, batches: readonly Renewal[]) => {
      const tokens = batches.flatMap(({ renewals }) => renewals.map(({ lockToken }) => lockToken));
      const [, ...results] = await Promise.all([
        store.workItems.lockToRenew(scope.tx, tokens),
        ...batches.map((batch) => renewBatch(store, scope, batch)),
      ]);
      return results;
    },
    maxInFlight: 1,
  });

  return {
    fetchWorkItems: (params) =>
      store.fetch({
        ...params,
        operation: 'fetchWorkItems',
        topic: 'work',
        wanted: { runnable: [], buildId: undefined, names: params.names, tasks: params.tasks },
        claim: () => store.claim('fetchWorkItems', (scope) => claim(store, scope, params)),
        claimPlainly: () => claimPlainly(store, params),
      }),

    ackWorkItems: store.batching({
      operation: 'ackWorkItems',
      run: (scope, acks) => ackItems(store, scope, acks),
      runPlain: (acks: readonly WorkItemAck[]) =>
        store.plainTaskAcks.settle(acks, store.nowParameter),
      refused: (error): CommitResult => ({ ok: false, error }),
      maxInFlight: 2,
    }),

    ackTurns: store.batching({
      operation: 'ackTurns',
      run: (scope, acks) => ackTurns(store, scope, acks),
      runPlain: (acks: readonly TurnAck[]) => store.plainTurns.commit(acks, store.nowParameter),
      refused: (error): CommitResult => ({ ok: false, error }),
      maxInFlight: 2,
      enoughItems: enoughTurns,
    }),

    async renewWorkItemLocks(renewals, extendMs) {
      const [results = []] = renewals.length === 0 ? [] : await renew([{ renewals, extendMs }]);
      return results;
    },

    abandonWorkItems: store.batching({
      operation: 'abandonWorkItems',
      run: (scope, abandons) =>
        handBack(store, scope, abandons, ({ giveBackClaim, unstarted }, claims) => ({
          claims: giveBackClaim ? Math.max(claims - 1, 0) : claims,
          failure: undefined,
          unstarted,
        })),
      maxInFlight: 1,
    }),

    retryWorkItems: store.batching({
      operation: 'retryWorkItems',
      run: (scope, retries) =>
        handBack(store, scope, retries, ({ failure }) => ({ claims: 0, failure })),
      maxInFlight: 1,
    }),
  };
}

interface Renewal {
  readonly renewals: readonly WorkItemRenewal[];
  readonly extendMs: number;
}

async function renewBatch(
  store: Store,
  scope: Scope,
  { renewals, extendMs }: Renewal,
): Promise<readonly RenewResult[]> {
  const { tx, nowParameter } = scope;
  const held = await store.workItems.renew(tx, renewals, extendMs, nowParameter);
  const lost = renewals.filter(({ lockToken }) => !held.has(lockToken));
  // Asked after the renewal: a deletion that it has waited for is seen.
  const deleted = await store.tombstones.find(
    tx,
    lost.map(({ lockToken }) => lockToken),
    nowParameter,
  );
  return renewals.map(({ lockToken }): RenewResult => {
    const cancel = held.get(lockToken);
    if (cancel !== undefined) return { held: true, cancel };
    return deleted.has(lockToken) ? { held: false, deleted: true } : { held: false };
  });
}

/** Locks the items that tokens name, and their instances before them; answers the items that are held. */
async function lockHeld(
  store: Store,
  batch: Batch,
  claims: readonly { readonly lockToken: string; readonly unstarted?: boolean }[],
): Promise<readonly (HeldItem | undefined)[]> {
  const { scope, instances } = batch;
  const tokens = claims.map(({ lockToken }) => parseToken(lockToken));
  const itemKeys = [...new Set(tokens.map(({ key }) => key))];
  const [, items] = await scope.begin(
    instances.lock({ itemKeys, parents: 'ending' }),
    store.workItems.lock(scope.tx, itemKeys),
  );
  const met = new Set<number>();
  return tokens.map(({ key, secret }, index) => {
    const item = items.get(key);
    // A claim that started nothing can be given back until another worker claims the item.
    const heldAt = claims[index]?.unstarted === true ? 0 : scope.now;
    if (item?.lockToken !== secret || !isLive(item, heldAt) || met.has(key)) return undefined;
    met.add(key);
    return item;
  });
}

async function ackItems(
  store: Store,
  scope: Scope,
  acks: readonly WorkItemAck[],
): Promise<readonly CommitResult[]> {
  const batch = store.newBatch(scope);
  const held = await lockHeld(store, batch, acks);
  const settlements: Settlement[] = [];
  const results = acks.map(({ outcome }, index): CommitResult | undefined => {
    const item = held[index];
    if (item === undefined) return lost('ackWorkItems');
    settlements.push({ item, outcome });
    return undefined;
  });
  const ends = (await settle(store, batch, settlements)).values();
  return results.map((result): CommitResult => {
    if (result !== undefined) return result;
    const ended = ends.next().value;
    return { ok: true, claimed: [], ...(ended !== undefined && { ended }) };
  });
}

/** Deletes the items and tells their executions, if those still go on; answers how task runs have ended by that. */
async function settle(
  store: Store,
  batch: Batch,
  settlements: readonly Settlement[],
): Promise<readonly (TerminalStatus | undefined)[]> {
  const { scope, instances, changes } = batch;
  if (settlements.length === 0) return [];
  const leaks = new Map<number, number>();
  const closing = new Set<number>();
  const ends = settlements.map((settlement) => {
    const { item, outcome } = settlement;
    const { instanceKey } = item;
    if (outcome.kind === 'canceled' && outcome.leaked) {
      leaks.set(instanceKey, (leaks.get(instanceKey) ?? 0) + 1);
    }
    const instance = instances.get(instanceKey);
    if (instance?.isTask === true) return settleRun(batch, instance, settlement);
    const message = outcomeMessage(item, outcome, () => item);
    if (instance === undefined) return undefined;
    if (instance.closingReason !== null) closing.add(instanceKey);
    else if (instance.executionId === item.executionId && !isTerminal(instance.status)) {
      changes.send(scope, instance, message);
    }
    return undefined;
  });
  await Promise.all([
    store.workItems.delete(
      scope.tx,
      settlements.map(({ item }) => item.itemKey),
    ),
    store.stopRows.countLeaked(scope.tx, leaks),
    changes.write(scope, store),
  ]);
  if (closing.size === 0) return ends;
  const after = { ...batch, changes: new Changes() };
  await store.stops.finishClosing(after, [...closing]);
  await after.changes.write(scope, store);
  return ends;
}

async function ackTurns(
  store: Store,
  scope: Scope,
  acks: readonly TurnAck[],
): Promise<readonly CommitResult[]> {
  const batch = store.newBatch(scope);
  const keys = [...new Set(acks.map(({ instanceKey }) => instanceKey))];
  const itemKeys = acks.flatMap(({ lockTokens }) => lockTokens.map((one) => parseToken(one).key));
  const turns = acks.map(({ turn }) => turn);
  const endsCanceled = turns.some(({ outcome }) => outcome.status === 'canceled');
  const [, locks, items] = await scope.begin(
    batch.instances.lock({
      keys,
      ids: addressees(turns),
      ...(endsCanceled && { parents: 'all' }),
    }),
    store.locks.lock(scope.tx, keys, scope.nowParameter),
    store.workItems.lock(scope.tx, itemKeys),
  );
  const visible = await readFired(store, scope, acks);
  const commits: TurnCommit[] = [];
  const settled = new Set<number>();
  const results = acks.map((ack): CommitResult | undefined => {
    const { instanceKey, turn, timers = [] } = ack;
    const target = batch.instances.get(instanceKey);
    const stands =
      target?.status === 'running' &&
      target.incarnation === ack.incarnation &&
      target.executionId === ack.executionId &&
      target.lastTurn === ack.lastTurn &&
      !commits.some((commit) => commit.target.instanceKey === instanceKey);
    if (!stands) return lost('ackTurns');
    const lock = locks.get(instanceKey);
    const isFree = lock === undefined || !isLive(lock, scope.now);
    const seenUntil = ack.asOfMs ?? scope.now;
    const fired = (visible.get(instanceKey) ?? []).filter(
      ({ visibleAt }) => visibleAt <= seenUntil,
    );
    const hasUnseen = timers.length > 0 ? !areFiredTimers(fired, ack) : lock?.hasVisible === true;
    const own = ack.lockTokens.map((token) => ownItem(ack, items, token, scope.now));
    if (!isFree || hasUnseen || own.includes(undefined)) return lost('ackTurns');
    const error = refusal(target, turn, 'ackTurns');
    if (error !== undefined) return { ok: false, error };
    for (const item of own) if (item !== undefined) settled.add(item.itemKey);
    // The end of an instance takes all of its messages.
    if (timers.length > 0 && !isTerminal(turn.outcome.status)) {
      for (const { messageKey } of fired)
        batch.changes.readMessages.push({ messageKey, instanceKey });
    }
    commits.push({ target, hasLockRow: lock !== undefined, turn });
    return undefined;
  });
  // Sent ahead of what the turns do to the items that are left.
  const deleted = store.workItems.delete(scope.tx, [...settled]);
  const [claims] = await Promise.all([store.turns.commit(batch, commits), deleted]);
  const claimed = claims.values();
  return results.map((result) => result ?? { ok: true, claimed: claimed.next().value ?? [] });
}

/** The visible messages of the instances whose timers have fired; one more than those, if there are more. */
async function readFired(
  store: Store,
  { tx, now }: Scope,
  acks: readonly TurnAck[],
): Promise<ReadonlyMap<number, readonly VisibleMessage[]>> {
  const firing = acks.filter(({ timers = [] }) => timers.length > 0);
  if (firing.length === 0) return new Map();
  const keys = [...new Set(firing.map(({ instanceKey }) => instanceKey))];
  const max = Math.max(...firing.map(({ timers = [] }) => timers.length)) + 1;
  const messages = await store.messages.readVisible(tx, keys, now, max);
  return Map.groupBy(messages, ({ instanceKey }) => instanceKey);
}

/** An item that a turn may settle: held, of its own execution, and not asked to stop. */
function ownItem(
  { instanceKey, executionId }: TurnAck,
  items: ReadonlyMap<number, HeldItem>,
  lockToken: string,
  now: number,
): HeldItem | undefined {
  const { key, secret } = parseToken(lockToken);
  const item = items.get(key);
  const fits =
    item?.lockToken === secret &&
    isLive(item, now) &&
    item.instanceKey === instanceKey &&
    item.executionId === executionId &&
    !item.cancelRequested;
  return fits ? item : undefined;
}

function lost(operation: string): CommitResult {
  return { ok: false, error: new LockLostError(operation) };
}

/** Hands items back; those that were asked to stop end instead. */
async function handBack<
  Item extends {
    readonly lockToken: string;
    readonly delayMs: number;
    readonly unstarted?: boolean;
  },
>(
  store: Store,
  scope: Scope,
  entries: readonly Item[],
  how: (entry: Item, claims: number) => Pick<HandedBack, 'claims' | 'failure' | 'unstarted'>,
): Promise<readonly HandBackResult[]> {
  const batch = store.newBatch(scope);
  const held = await lockHeld(store, batch, entries);
  const settlements: Settlement[] = [];
  const back: HandedBack[] = [];
  const failed: number[] = [];
  const unstarted: number[] = [];
  for (const [index, entry] of entries.entries()) {
    const item = held[index];
    if (item === undefined) continue;
    // What was asked to stop does not start again.
    if (item.cancelRequested) {
      settlements.push({ item, outcome: { kind: 'canceled', leaked: false } });
      continue;
    }
    const nextAt = scope.now + Math.ceil(entry.delayMs);
    const handed = { itemKey: item.itemKey, nextAt, ...how(entry, item.claims) };
    back.push(handed);
    if (handed.failure !== undefined && isRun(batch, item)) failed.push(item.instanceKey);
    if (handed.unstarted === true && isRun(batch, item)) unstarted.push(item.itemKey);
    scope.effects.due('work', nextAt);
  }
  const [ends, expiries] = await Promise.all([
    settle(store, batch, settlements),
    store.taskRows.unstart(scope.tx, unstarted),
    store.workItems.handBack(scope.tx, back),
    store.taskRows.countFailures(scope.tx, failed),
  ]);
  for (const expiresAt of expiries) scope.effects.due('work', expiresAt);
  const ended = new Map(settlements.map(({ item }, index) => [item, ends[index]]));
  return held.map((item) => item !== undefined && (ended.get(item) ?? true));
}

async function claim(
  store: Store,
  scope: Scope,
  params: FetchWorkItemsParams,
): Promise<readonly WorkItem[]> {
  const claimed = await store.dueItems.claim(scope, params);
  if (claimed.length === 0) return [];
  const orphans = claimed.filter(({ instanceId }) => instanceId === null);
  await Promise.all([
    store.workItems.delete(
      scope.tx,
      orphans.map(({ itemKey }) => itemKey),
    ),
    store.definitions.load(
      scope.tx,
      claimed.flatMap(({ definitionKey, instanceDefinitionKey: key }) => [definitionKey, key]),
    ),
  ]);
  scope.effects.due('work', scope.now + params.lockMs);
  return claimed.flatMap((row) => toItem(store, row, scope.now) ?? []);
}

/** Claims in one round trip, as far as that can be done and everything about it is known. */
async function claimPlainly(
  store: Store,
  params: FetchWorkItemsParams,
): Promise<readonly WorkItem[]> {
  const sentAt = store.monotonic();
  const claimed = await store.plainClaims.claim(params, store.nowParameter);
  const [first] = claimed;
  if (first === undefined) return [];
  store.observe(first.now, sentAt);
  const keys = claimed.flatMap(({ definitionKey, instanceDefinitionKey: key }) => [
    definitionKey,
    key,
  ]);
  if (!store.definitions.knows(keys)) {
    await store.read('fetchWorkItems', (tx) => store.definitions.load(tx, keys));
  }
  const effects = new Effects();
  effects.due('work', first.now + params.lockMs);
  store.wakeUps.announce(effects);
  return claimed.flatMap((row) => toItem(store, row, row.now) ?? []);
}

function toItem(store: Store, row: ClaimedItem, nowMs: number): WorkItem | undefined {
  const { instanceId } = row;
  if (instanceId === null) return undefined;
  const kind = !row.isTask ? 'activity' : row.operation === onFailOperation ? 'onFail' : 'task';
  return {
    kind,
    lockToken: formatToken(row.itemKey, row.secret),
    instanceKey: row.instanceKey,
    instanceId,
    incarnation: row.incarnation,
    executionId: row.executionId,
    operation: row.operation,
    name: store.definitions.get(row.definitionKey).name,
    orchestration: store.definitions.get(row.instanceDefinitionKey).name,
    payload: row.isTask ? row.input : row.payload,
    options: kind === 'task' ? row.runOptions : row.options,
    claims: row.claims,
    failures: row.failures,
    heartbeat: row.heartbeat,
    cancel: toCancelInfo(row),
    nowMs,
    ...(kind === 'onFail' && row.failure !== null && { failure: row.failure }),
  };
}
