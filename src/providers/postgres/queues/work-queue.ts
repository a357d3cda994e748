import { LockLostError } from '../../../model/failures/errors.ts';
import { isTerminal, type TerminalStatus } from '../../../model/status.ts';
import type { CommitResult } from '../../contract/turn.ts';
import type {
  HandBackResult,
  RenewResult,
  TurnAck,
  WorkItemAbandon,
  WorkItemAck,
  WorkItemRenewal,
  WorkItemRetry,
  WorkQueue,
} from '../../contract/work-queue.ts';
import { isClaimed, isHeldBy, planHandBack } from '../../rules/claims.ts';
import { fenceBreach, fenceMessagesUntil, turnError } from '../../rules/turns.ts';
import { outcomeMessage } from '../../rules/outcome-message.ts';
import { Effects } from '../../shared/effects.ts';
import { parseToken } from '../../shared/lock-token.ts';
import { enoughTurns, type BatchWork } from '../batches/batching.ts';
import { Changes, type Batch } from '../batches/batch.ts';
import type { Connections, Transaction } from '../driver/connection.ts';
import type { Scope } from '../driver/scope.ts';
import { addressees, type TurnCommit, type Turns } from '../instances/turns.ts';
import type { InstanceStops } from '../stopping/instance-stops.ts';
import type { InstanceRow } from '../tables/instance-rows.ts';
import type { PauseRows } from '../tables/pause-rows.ts';
import type { InstanceLocks } from '../tables/instance-locks.ts';
import type { Messages, VisibleMessage } from '../tables/messages.ts';
import {
  freesPlace,
  type Settlement,
  type HandedBack,
  type HeldItem,
  type WorkItems,
} from '../tables/work-items.ts';
import type { TaskRows } from '../tables/task-rows.ts';
import type { Tombstones } from '../tables/tombstones.ts';
import { isRun, settleRun } from '../tasks/tasks.ts';
import { LimitedFetches, type LimitedFetchParts } from './limited-fetches.ts';
import {
  claimItems,
  claimItemsInOneStatement,
  type ItemClaimParts,
  type SingleStatementClaim,
} from './item-claims.ts';

export type WorkQueueParts = LimitedFetchParts &
  ItemClaimParts &
  Parameters<Changes['write']>[1] & {
    readonly locks: InstanceLocks;
    readonly messages: Messages;
    readonly pauseRows: PauseRows;
    readonly stops: InstanceStops;
    readonly taskRows: TaskRows;
    readonly tombstones: Tombstones;
    readonly turns: Turns;
  };

/** The single-statement paths of the work queue. */
interface SingleStatementWork {
  readonly claim: SingleStatementClaim;
  readonly ackItems: NonNullable<BatchWork<WorkItemAck, CommitResult>['runSingleStatement']>;
  readonly ackTurns: NonNullable<BatchWork<TurnAck, CommitResult>['runSingleStatement']>;
  /** Sends statements and their COMMIT in one round trip. */
  readonly pipeline: Connections['pipeline'];
}

/** Implements claims, acks, renewals and releases of work items. */
export function createWorkQueue(
  store: WorkQueueParts,
  oneStatement: SingleStatementWork,
): WorkQueue {
  const limitedFetches = new LimitedFetches(store);
  const renew = store.batching({
    operation: 'renewWorkItemLocks',
    run: async ({ tx }, batches: readonly Renewal[]) =>
      withDeleted(store, tx, batches, await renewBatches(store, tx, batches)),
    // The COMMIT travels with the statements: a cancel from another process waits for this renewal.
    runSingleStatement: async (batches) => {
      const held = await oneStatement.pipeline('renewWorkItemLocks', (tx) =>
        renewBatches(store, tx, batches),
      );
      const isLost = batches.some(
        ({ renewals }, index) => renewals.length > (held[index]?.size ?? 0),
      );
      const results = isLost
        ? await store.read('renewWorkItemLocks', (tx) => withDeleted(store, tx, batches, held))
        : batches.map((batch, index) => toResults(batch, held[index], new Set()));
      return { results, effects: new Effects() };
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
        claim: ({ now, nextPlainAt }) =>
          limitedFetches.claimDue(
            params,
            nextPlainAt > now
              ? undefined
              : (part, isAlone) =>
                  store.claim('fetchWorkItems', (scope) =>
                    claimItems(store, scope, { ...part, withoutSuspects: !isAlone }),
                  ),
          ),
        claimInOneStatement: () =>
          limitedFetches.claimBusy(params, (part) =>
            claimItemsInOneStatement(store, oneStatement.claim, part),
          ),
      }),

    ackWorkItems: store.batching({
      operation: 'ackWorkItems',
      run: (scope, acks) => ackItems(store, scope, acks),
      runSingleStatement: oneStatement.ackItems,
      refused: (error): CommitResult => ({ ok: false, error }),
      maxInFlight: 2,
    }),

    ackTurns: store.batching({
      operation: 'ackTurns',
      run: (scope, acks) => ackTurns(store, scope, acks),
      runSingleStatement: oneStatement.ackTurns,
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
      run: (scope, abandons: readonly WorkItemAbandon[]) => handBack(store, scope, abandons),
      maxInFlight: 1,
    }),

    retryWorkItems: store.batching({
      operation: 'retryWorkItems',
      run: (scope, retries: readonly WorkItemRetry[]) => handBack(store, scope, retries),
      maxInFlight: 1,
    }),
  };
}

interface Renewal {
  readonly renewals: readonly WorkItemRenewal[];
  readonly extendMs: number;
}

/** The cancel requests of held items by token, per batch. */
type HeldTokens = Awaited<ReturnType<WorkItems['renew']>>;

type RenewalParts = Pick<WorkQueueParts, 'workItems' | 'tombstones' | 'nowParameter'>;

function renewBatches(
  { workItems, nowParameter }: RenewalParts,
  tx: Transaction,
  batches: readonly Renewal[],
): Promise<readonly HeldTokens[]> {
  const tokens = batches.flatMap(({ renewals }) => renewals.map(({ lockToken }) => lockToken));
  const locked = workItems.lockToRenew(tx, tokens);
  const renewed = batches.map(({ renewals, extendMs }) =>
    workItems.renew(tx, renewals, extendMs, nowParameter),
  );
  return Promise.all([Promise.all(renewed), locked]).then(([held]) => held);
}

/** Finds which lost items were deleted. After the renewal, which may have waited for the deletion. */
async function withDeleted(
  { tombstones, nowParameter }: RenewalParts,
  tx: Transaction,
  batches: readonly Renewal[],
  held: readonly HeldTokens[],
): Promise<readonly (readonly RenewResult[])[]> {
  const lost = batches.flatMap(({ renewals }, index) =>
    renewals.flatMap(({ lockToken }) => (held[index]?.has(lockToken) === true ? [] : [lockToken])),
  );
  const deleted = await tombstones.find(tx, lost, nowParameter);
  return batches.map((batch, index) => toResults(batch, held[index], deleted));
}

function toResults(
  { renewals }: Renewal,
  held: HeldTokens | undefined,
  deleted: ReadonlySet<string>,
): readonly RenewResult[] {
  return renewals.map(({ lockToken }): RenewResult => {
    const cancel = held?.get(lockToken);
    if (cancel !== undefined) return { held: true, cancel };
    return deleted.has(lockToken) ? { held: false, deleted: true } : { held: false };
  });
}

/** Locks the instances of claims, then their items. Returns the items that are held, one per claim. */
async function lockHeld(
  { workItems }: Pick<WorkQueueParts, 'workItems'>,
  { scope, instances }: Batch,
  claims: readonly { readonly lockToken: string; readonly unstarted?: boolean }[],
): Promise<readonly (HeldItem | undefined)[]> {
  const tokens = claims.map(({ lockToken }) => parseToken(lockToken));
  const itemKeys = [...new Set(tokens.map(({ key }) => key))];
  const [, items] = await scope.begin(
    instances.lock({ itemKeys, parents: 'ending' }),
    workItems.lock(scope.tx, itemKeys),
  );
  const seen = new Set<number>();
  return tokens.map(({ key, secret }, index) => {
    const item = items.get(key);
    const evenIfExpired = claims[index]?.unstarted;
    if (!isHeldBy(item, secret, scope.now, { evenIfExpired }) || seen.has(key)) return undefined;
    seen.add(key);
    return item;
  });
}

/** Settles claimed items, except those that `refuse` returns an error for. */
export async function ackItems(
  store: WorkQueueParts,
  scope: Scope,
  acks: readonly WorkItemAck[],
  refuse?: (item: HeldItem, index: number) => Error | undefined,
): Promise<readonly CommitResult[]> {
  const batch = store.newBatch(scope);
  const held = await lockHeld(store, batch, acks);
  const refusals = new Map(
    refuse === undefined
      ? []
      : held.flatMap((item, index) => {
          const error = item && refuse(item, index);
          return error === undefined ? [] : [[item, error] as const];
        }),
  );
  const settlements = acks.flatMap(({ outcome }, index) => {
    const item = held[index];
    return item === undefined || refusals.has(item) ? [] : [{ item, outcome }];
  });
  const endOf = await settle(store, batch, settlements);
  return held.map((item): CommitResult => {
    if (item === undefined) return lost('ackWorkItems');
    const error = refusals.get(item);
    if (error !== undefined) return { ok: false, error };
    const ended = endOf.get(item);
    return { ok: true, claimed: [], ...(ended !== undefined && { ended }) };
  });
}

/** Deletes items and sends their outcomes to their executions. Returns the final statuses of task runs that ended. */
async function settle(
  store: WorkQueueParts,
  batch: Batch,
  settlements: readonly Settlement[],
): Promise<ReadonlyMap<HeldItem, TerminalStatus | undefined>> {
  const { scope, changes } = batch;
  if (settlements.length === 0) return new Map();
  announceFreed(
    scope,
    settlements.map(({ item }) => item),
  );
  const ends = new Map(
    settlements.map((settlement) => [settlement.item, settleOne(batch, settlement)]),
  );
  await Promise.all([
    store.workItems.delete(
      scope.tx,
      settlements.map(({ item }) => item.itemKey),
    ),
    store.stopRows.countLeaked(scope.tx, countLeaks(settlements)),
    changes.write(scope, store),
  ]);
  await finishClosing(
    store,
    batch,
    settlements.map(({ item }) => item.instanceKey),
  );
  return ends;
}

/** Applies an outcome to its task run, or sends it to its execution if that still runs. */
function settleOne(batch: Batch, settlement: Settlement): TerminalStatus | undefined {
  const { scope, instances, changes } = batch;
  const { item, outcome } = settlement;
  const instance = instances.get(item.instanceKey);
  if (instance?.isTask === true) return settleRun(batch, instance, settlement);
  const message = outcomeMessage(item, outcome, () => item);
  const isCurrent =
    instance?.closingReason === null &&
    instance.executionId === item.executionId &&
    !isTerminal(instance.status);
  if (isCurrent) changes.send(scope, instance, message);
  return undefined;
}

function countLeaks(settlements: readonly Settlement[]): ReadonlyMap<number, number> {
  const leaks = new Map<number, number>();
  for (const { item, outcome } of settlements) {
    if (outcome.kind !== 'canceled' || !outcome.leaked) continue;
    leaks.set(item.instanceKey, (leaks.get(item.instanceKey) ?? 0) + 1);
  }
  return leaks;
}

/** Ends the closing instances among those whose items were deleted, in a second round of changes. */
async function finishClosing(
  store: WorkQueueParts,
  batch: Batch,
  instanceKeys: readonly number[],
): Promise<void> {
  const closing = [...new Set(instanceKeys)].filter((instanceKey) => {
    const instance = batch.instances.get(instanceKey);
    return instance?.isTask === false && instance.closingReason !== null;
  });
  if (closing.length === 0) return;
  const after = { ...batch, changes: new Changes() };
  await store.stops.finishClosing(after, closing);
  await after.changes.write(batch.scope, store);
}

/** Settles items and commits the turns that they caused. */
export async function ackTurns(
  store: WorkQueueParts,
  scope: Scope,
  acks: readonly TurnAck[],
): Promise<readonly CommitResult[]> {
  const batch = store.newBatch(scope);
  const locked = await lockForTurns(store, batch, acks);
  const isPaused = await pausedTargets(store, batch, acks);
  const accepted: AcceptedTurn[] = [];
  const committed = new Set<number>();
  const results = acks.map((ack): CommitResult | undefined => {
    const { instanceKey } = ack;
    const checked = committed.has(instanceKey)
      ? lost('ackTurns')
      : checkTurn(ack, batch, { ...locked, isPaused });
    if ('ok' in checked) return checked;
    committed.add(instanceKey);
    accepted.push(checked);
    return undefined;
  });
  for (const { commit, fired } of accepted) {
    // The end of an instance deletes all its messages.
    if (isTerminal(commit.turn.outcome.status)) continue;
    for (const { messageKey, instanceKey } of fired) {
      batch.changes.readMessages.push({ messageKey, instanceKey });
    }
  }
  for (const { items } of accepted) announceFreed(scope, items);
  // Sent before the statements of the turns, which read the remaining items.
  const deleted = store.workItems.delete(scope.tx, [
    ...new Set(accepted.flatMap(({ items }) => items.map(({ itemKey }) => itemKey))),
  ]);
  const [claims] = await Promise.all([
    store.turns.commit(
      batch,
      accepted.map(({ commit }) => commit),
    ),
    deleted,
  ]);
  const claimed = claims.values();
  return results.map((result) => result ?? { ok: true, claimed: claimed.next().value ?? [] });
}

/** The rows that `lockForTurns` locked or read. */
interface LockedForTurns {
  readonly locks: Awaited<ReturnType<InstanceLocks['lock']>>;
  readonly items: ReadonlyMap<number, HeldItem>;
  /** The visible messages of instances whose timers fired, by instance key. */
  readonly messages: ReadonlyMap<number, readonly VisibleMessage[]>;
}

async function lockForTurns(
  { locks, workItems, messages }: Pick<WorkQueueParts, 'locks' | 'workItems' | 'messages'>,
  { scope, instances }: Batch,
  acks: readonly TurnAck[],
): Promise<LockedForTurns> {
  const keys = [...new Set(acks.map(({ instanceKey }) => instanceKey))];
  const itemKeys = acks.flatMap(({ lockTokens }) => lockTokens.map((one) => parseToken(one).key));
  const turns = acks.map(({ turn }) => turn);
  const endsCanceled = turns.some(({ outcome }) => outcome.status === 'canceled');
  const [, lockRows, items] = await scope.begin(
    instances.lock({ keys, ids: addressees(turns), ...(endsCanceled && { parents: 'all' }) }),
    locks.lock(scope.tx, keys, scope.nowParameter),
    workItems.lock(scope.tx, itemKeys),
  );
  const firing = acks.filter(({ timers = [] }) => timers.length > 0);
  if (firing.length === 0) return { locks: lockRows, items, messages: new Map() };
  const firingKeys = [...new Set(firing.map(({ instanceKey }) => instanceKey))];
  // One more than the timers, to detect other visible messages.
  const max = Math.max(...firing.map(({ timers = [] }) => timers.length)) + 1;
  const visible = await messages.readVisible(scope.tx, firingKeys, scope.now, max);
  return {
    locks: lockRows,
    items,
    messages: Map.groupBy(visible, ({ instanceKey }) => instanceKey),
  };
}

/** Returns a function that tests whether an instance or its definition is paused. */
async function pausedTargets(
  { definitions, pauseRows }: Pick<WorkQueueParts, 'definitions' | 'pauseRows'>,
  { scope: { tx }, instances }: Batch,
  acks: readonly TurnAck[],
): Promise<(target: InstanceRow) => boolean> {
  const targets = acks.flatMap(({ instanceKey }) => instances.get(instanceKey) ?? []);
  if (!targets.some(({ hasPausedDefinitions }) => hasPausedDefinitions)) {
    return ({ isPaused }) => isPaused;
  }
  const [names] = await Promise.all([
    pauseRows.selectPausedNames(tx, 'orchestration'),
    definitions.load(
      tx,
      targets.map(({ definitionKey }) => definitionKey),
    ),
  ]);
  return ({ isPaused, definitionKey }) =>
    isPaused || names.has(definitions.get(definitionKey).name);
}

/** A turn that can be committed, with the items that it settles and the timer messages that it consumes. */
interface AcceptedTurn {
  readonly commit: TurnCommit;
  readonly items: readonly HeldItem[];
  readonly fired: readonly VisibleMessage[];
}

/** Checks a turn against the locked rows. Returns a failed result if its base has changed or it is invalid. */
function checkTurn(
  ack: TurnAck,
  { scope: { now }, instances }: Batch,
  locked: LockedForTurns & { readonly isPaused: (target: InstanceRow) => boolean },
): AcceptedTurn | CommitResult {
  const { instanceKey, turn, timers = [] } = ack;
  const target = instances.get(instanceKey);
  const lock = locked.locks.get(instanceKey);
  const until = fenceMessagesUntil(ack, now);
  const visible = (timers.length > 0 ? (locked.messages.get(instanceKey) ?? []) : []).filter(
    ({ visibleAt }) => visibleAt <= until,
  );
  const items = ack.lockTokens.map((lockToken) => {
    const { key, secret } = parseToken(lockToken);
    const item = locked.items.get(key);
    return isHeldBy(item, secret, now) ? item : undefined;
  });
  const breach = fenceBreach(ack, {
    instance: target,
    isPaused: target !== undefined && locked.isPaused(target),
    isClaimed: isClaimed(lock, now),
    hasVisible: lock?.hasVisible === true,
    visible,
    items,
  });
  if (target === undefined || breach !== undefined) return lost('ackTurns');
  const error = turnError(target, turn, 'ackTurns');
  if (error !== undefined) return { ok: false, error };
  const commit = { target, hasLockRow: lock !== undefined, turn };
  return { commit, items: items.filter((item) => item !== undefined), fired: visible };
}

/** Wakes workers if items with places end or return to the queue. */
function announceFreed({ effects }: Scope, items: readonly HeldItem[]): void {
  if (items.some(({ lockToken }) => lockToken !== null && freesPlace(lockToken)))
    effects.due('work', 0);
}

function lost(operation: string): CommitResult {
  return { ok: false, error: new LockLostError(operation) };
}

/** Releases held items for a later claim. Flagged items end as canceled instead. */
async function handBack(
  store: WorkQueueParts,
  scope: Scope,
  entries: readonly (WorkItemAbandon | WorkItemRetry)[],
): Promise<readonly HandBackResult[]> {
  const batch = store.newBatch(scope);
  const held = await lockHeld(store, batch, entries);
  const canceled: Settlement[] = [];
  const back: HandedBack[] = [];
  const unstarted: number[] = [];
  const failed: number[] = [];
  for (const [index, entry] of entries.entries()) {
    const item = held[index];
    if (item === undefined) continue;
    const plan = planHandBack(item, entry, scope.now);
    if (plan.kind === 'cancel') {
      canceled.push({ item, outcome: { kind: 'canceled', leaked: false } });
      continue;
    }
    const { itemKey, instanceKey } = item;
    const { nextAt, claims, failure, explanation, maxAttempts } = plan;
    const isDelayed = nextAt > scope.now;
    back.push({ itemKey, nextAt, isDelayed, claims, failure, explanation, maxAttempts });
    scope.effects.due('work', nextAt);
    if (!isRun(batch, item)) continue;
    if (plan.unstarted) unstarted.push(itemKey);
    if (failure !== undefined) failed.push(instanceKey);
  }
  announceFreed(
    scope,
    held.flatMap((item) => item ?? []),
  );
  const { taskRows, workItems } = store;
  const [endOf, expiries] = await Promise.all([
    settle(store, batch, canceled),
    taskRows.unstart(scope.tx, unstarted),
    workItems.handBack(scope.tx, back),
    taskRows.countFailures(scope.tx, failed),
  ]);
  for (const expiresAt of expiries) scope.effects.due('work', expiresAt);
  return held.map((item) => item !== undefined && (endOf.get(item) ?? true));
}
