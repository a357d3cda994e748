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
import { isClaimed, isHeldBy, planHoldBack } from '../../rules/claims.ts';
import { isUnchangedSince, turnError } from '../../rules/turns.ts';
import { formatToken, parseToken, type Secrets } from '../../shared/lock-token.ts';
import type { Batch } from '../batches/batch.ts';
import type { BatchWork } from '../batches/batching.ts';
import type { Transaction } from '../driver/connection.ts';
import type { Scope } from '../driver/scope.ts';
import type { BeginLimits } from '../limits/begin-limits.ts';
import { addressees, type TurnCommit, type Turns } from '../instances/turns.ts';
import type { Definitions } from '../tables/definitions.ts';
import type { History } from '../tables/history.ts';
import type { InstanceLocks } from '../tables/instance-locks.ts';
import { isOver, parentOf, type InstanceRow, type InstanceRows } from '../tables/instance-rows.ts';
import type { MessageOf, Messages } from '../tables/messages.ts';
import type { PauseRows } from '../tables/pause-rows.ts';
import type { QueueAccess } from '../wakeups/fetching.ts';
import type { DueInstance, DueInstances } from './due-instances.ts';

const defaultMaxMessages = 1_000;
// Bounds how many new instances of limited orchestrations one claim sorts into lanes.
const maxRounds = 20;
// Suspects and blocked instances wait this long while single statements claim others.
const generalEveryMs = 250;

/** The parts of a store that an orchestration queue uses. */
export interface OrchestrationQueueParts extends QueueAccess {
  readonly beginLimits: BeginLimits;
  readonly definitions: Definitions;
  readonly dueInstances: DueInstances;
  readonly history: History;
  readonly instances: InstanceRows;
  readonly locks: InstanceLocks;
  readonly messages: Messages;
  readonly pauseRows: PauseRows;
  readonly secrets: Secrets;
  readonly turns: Turns;
}

/** The columns of a claimed instance. */
type ClaimedRow = Pick<
  InstanceRow,
  | 'instanceKey'
  | 'instanceId'
  | 'incarnation'
  | 'executionId'
  | 'definitionKey'
  | 'lastTurn'
  | 'historyLength'
  | 'parentInstanceId'
  | 'parentExecutionId'
  | 'parentOperation'
>;

/** A message of an instance that was claimed in one statement, with the columns of the instance. */
export interface ClaimedMessage extends ClaimedRow, Omit<FetchedMessage, 'executionId'> {
  readonly now: number;
  readonly claims: number;
  readonly messageExecutionId: number | null;
}

/** The messages of claimed instances, ordered by instance. */
export interface ClaimedInstances {
  readonly rows: readonly ClaimedMessage[];
  readonly secret: string;
}

/** The single-statement paths of the orchestration queue. */
interface SingleStatementTurns {
  /** Returns no rows if nothing is due or the general path is needed. */
  readonly claim: (
    params: FetchOrchestrationItemsParams & { readonly maxMessages: number },
  ) => Promise<ClaimedInstances>;
  readonly ack: NonNullable<BatchWork<OrchestrationAck, CommitResult>['runSingleStatement']>;
}

/** Implements claims, acks, renewals and releases of instances. */
export function createOrchestrationQueue(
  store: OrchestrationQueueParts,
  oneStatement: SingleStatementTurns,
): OrchestrationQueue {
  const renew = store.batching({
    operation: 'renewOrchestrationLocks',
    run: async (scope, batches: readonly Renewal[]) => renewBatches(store, scope, batches),
    maxInFlight: 1,
  });

  return {
    fetchOrchestrationItems: (params) =>
      store.fetch({
        ...params,
        operation: 'fetchOrchestrationItems',
        topic: 'orchestrations',
        wanted: { runnable: params.runnable, buildId: params.buildId, names: [], tasks: [] },
        claim: () => claimWithPlaces(store, params),
        claimInOneStatement: () => claimInOneStatement(store, oneStatement.claim, params),
        generalEveryMs,
      }),

    readHistory: (params) => store.read('readHistory', (tx) => store.history.read(tx, params)),

    ackOrchestrationItems: store.batching({
      operation: 'ackOrchestrationItems',
      run: (scope, acks) => ackInstances(store, scope, acks),
      runSingleStatement: oneStatement.ack,
      refused: (error): CommitResult => ({ ok: false, error }),
      maxInFlight: 2,
    }),

    readHeldMessages: (lockTokens) =>
      store.read('readHeldMessages', (tx) => readHeld(store, tx, lockTokens)),

    abandonOrchestrationItems: store.batching({
      operation: 'abandonOrchestrationItems',
      run: (scope, abandons) => abandon(store, scope, abandons),
      maxInFlight: 1,
    }),

    holdInstances: store.batching({
      operation: 'holdInstances',
      run: (scope, holds) => hold(store, scope, holds),
      maxInFlight: 1,
    }),

    async renewOrchestrationLocks(lockTokens, extendMs) {
      const [held = []] = lockTokens.length === 0 ? [] : await renew([{ lockTokens, extendMs }]);
      return held;
    },
  };
}

interface Renewal {
  readonly lockTokens: readonly string[];
  readonly extendMs: number;
}

async function renewBatches(
  { locks }: Pick<OrchestrationQueueParts, 'locks'>,
  { tx, nowParameter }: Scope,
  renewals: readonly Renewal[],
): Promise<readonly (readonly boolean[])[]> {
  const [, ...held] = await Promise.all([
    locks.lockToRenew(
      tx,
      renewals.flatMap(({ lockTokens }) => lockTokens),
    ),
    ...renewals.map(({ lockTokens, extendMs }) =>
      locks.renew(tx, lockTokens, extendMs, nowParameter),
    ),
  ]);
  return held;
}

/** Commits the turns of claimed instances. */
export async function ackInstances(
  store: OrchestrationQueueParts,
  scope: Scope,
  acks: readonly OrchestrationAck[],
): Promise<readonly CommitResult[]> {
  const batch = store.newBatch(scope);
  const tokens = acks.map(({ lockToken }) => parseToken(lockToken));
  const keys = [...new Set(tokens.map(({ key }) => key))];
  const turns = acks.map(({ turn }) => turn);
  const endsCanceled = turns.some(({ outcome }) => outcome.status === 'canceled');
  const ids = addressees(turns);
  const [, locks] = await scope.begin(
    batch.instances.lock({ keys, ids, ...(endsCanceled && { parents: 'all' }) }),
    store.locks.lock(scope.tx, keys, scope.nowParameter),
  );
  const isPausedNow = await pausedAmong(store, batch, acks, keys);
  const committed = new Set<number>();
  /** The acks that keep their claims, with whether they are paused. */
  const kept = new Map<number, boolean>();
  const commits: TurnCommit[] = [];
  const results = acks.map(({ messageKeys, turn, keep }, index): CommitResult | undefined => {
    const { key, secret } = tokens[index] ?? { key: -1, secret: '' };
    const lock = locks.get(key);
    const target = batch.instances.get(key);
    const isHeld = isHeldBy(lock, secret, scope.now) && !committed.has(key);
    if (!isHeld || target === undefined) {
      return { ok: false, error: new LockLostError('ackOrchestrationItems') };
    }
    const error = turnError(target, turn, 'ackOrchestrationItems');
    if (error !== undefined) return { ok: false, error };
    committed.add(key);
    const isKept = keep === true && turn.outcome.status === 'running';
    if (isKept) kept.set(index, isPausedNow(target));
    commits.push({
      target,
      hasLockRow: true,
      turn,
      keep: isKept ? (lock.claims > 0 ? 'reset' : 'keep') : undefined,
    });
    // The end of an instance deletes all its messages.
    if (!isTerminal(turn.outcome.status)) {
      for (const messageKey of messageKeys) {
        batch.changes.readMessages.push({ messageKey, instanceKey: key });
      }
    }
    return undefined;
  });
  const claimed = (await store.turns.commit(batch, commits)).values();
  return results.map((result, index) => {
    if (result !== undefined) return result;
    const ofTurn = claimed.next().value ?? [];
    const isPaused = kept.get(index);
    if (isPaused === undefined) return { ok: true, claimed: ofTurn };
    return { ok: true, claimed: ofTurn, kept: true, ...(isPaused && { paused: true }) };
  });
}

/** Returns whether an instance is paused, or its definition. Reads the definitions only if a claim is to be kept. */
async function pausedAmong(
  store: OrchestrationQueueParts,
  { scope, instances }: Batch,
  acks: readonly OrchestrationAck[],
  keys: readonly number[],
): Promise<(target: InstanceRow) => boolean> {
  const rows = keys.flatMap((key) => instances.get(key) ?? []);
  const mayBePaused =
    acks.some(({ keep }) => keep === true) && rows.some((row) => row.hasPausedDefinitions);
  if (!mayBePaused) return ({ isPaused }) => isPaused;
  const names = await store.pauseRows.selectPausedNames(scope.tx, 'orchestration');
  await store.definitions.load(
    scope.tx,
    rows.map(({ definitionKey }) => definitionKey),
  );
  return ({ isPaused, definitionKey }) =>
    isPaused || names.has(store.definitions.get(definitionKey).name);
}

async function readHeld(
  store: OrchestrationQueueParts,
  tx: Transaction,
  lockTokens: readonly string[],
): Promise<readonly (HeldMessages | undefined)[]> {
  const tokens = lockTokens.map(parseToken);
  const { now: nowMs, held } = await store.locks.readHeld(tx, tokens, store.nowParameter);
  const keys = [...held.keys()];
  if (keys.length === 0) return tokens.map(() => undefined);
  const [messages, next] = await Promise.all([
    store.messages.readVisible(tx, keys, nowMs, defaultMaxMessages + 1),
    store.messages.nextVisible(tx, keys, nowMs),
  ]);
  const byInstance = Map.groupBy(messages, ({ instanceKey }) => instanceKey);
  const nextAt = new Map(next.map((one) => [one.instanceKey, one.nextAt]));
  return tokens.map(({ key, secret }) => {
    if (held.get(key) !== secret) return undefined;
    const own = (byInstance.get(key) ?? []).filter((message) => !isStepGuard(message));
    const at = nextAt.get(key);
    return { messages: own.map(toMessage), nextInMs: at === undefined ? null : at - nowMs, nowMs };
  });
}

async function abandon(
  store: OrchestrationQueueParts,
  scope: Scope,
  abandons: readonly OrchestrationAbandon[],
): Promise<readonly boolean[]> {
  const tokens = abandons.map(({ lockToken }) => parseToken(lockToken));
  const keys = [...new Set(tokens.map(({ key }) => key))];
  const [, locks] = await scope.begin(
    store.newBatch(scope).instances.lock({ keys }),
    store.locks.lock(scope.tx, keys, scope.nowParameter),
  );
  const { now, effects } = scope;
  const released = new Set<number>();
  const holds: Parameters<typeof store.locks.hold>[1][number][] = [];
  const results = abandons.map(({ delayMs, giveBackClaim, evenIfExpired, blocked }, index) => {
    const { key: instanceKey, secret } = tokens[index] ?? { key: -1, secret: '' };
    const lock = locks.get(instanceKey);
    const isHeld = isHeldBy(lock, secret, now, { evenIfExpired });
    if (!isHeld || released.has(instanceKey)) return false;
    released.add(instanceKey);
    holds.push({ instanceKey, delayMs, giveBackClaim, blocked });
    effects.due('orchestrations', planHoldBack({ delayMs, blocked }, now).dueAt);
    return true;
  });
  await store.locks.hold(scope.tx, holds, now);
  return results;
}

async function hold(
  store: OrchestrationQueueParts,
  scope: Scope,
  holds: readonly InstanceHold[],
): Promise<readonly boolean[]> {
  const { instances } = store.newBatch(scope);
  const keys = [...new Set(holds.map(({ instanceKey }) => instanceKey))];
  const [, locks] = await scope.begin(
    instances.lock({ keys }),
    store.locks.lock(scope.tx, keys, scope.nowParameter),
  );
  const free = new Map<number, Parameters<typeof store.locks.holdFree>[1][number]>();
  const results = holds.map((one) => {
    const { instanceKey, delayMs, blocked } = one;
    const row = instances.get(instanceKey);
    const lock = locks.get(instanceKey);
    const isCurrent = row !== undefined && !isTerminal(row.status) && isUnchangedSince(row, one);
    if (!isCurrent || isClaimed(lock, scope.now)) return false;
    free.set(instanceKey, { instanceKey, definitionKey: row.definitionKey, delayMs, blocked });
    scope.effects.due('orchestrations', planHoldBack(one, scope.now).dueAt);
    return true;
  });
  await store.locks.holdFree(scope.tx, [...free.values()], scope.now);
  return results;
}

/** Claims, and again if the first claim has found the first limited orchestration. */
async function claimWithPlaces(
  store: OrchestrationQueueParts,
  params: FetchOrchestrationItemsParams,
): Promise<readonly OrchestrationItem[]> {
  const { isKnown } = store.beginLimits;
  const once = () => store.claim('fetchOrchestrationItems', (scope) => claim(store, scope, params));
  const items = await once();
  return items.length === 0 && store.beginLimits.isKnown !== isKnown ? once() : items;
}

/** Claims in one statement, plus one to read definitions that are not cached. */
async function claimInOneStatement(
  store: OrchestrationQueueParts,
  claim: SingleStatementTurns['claim'],
  params: FetchOrchestrationItemsParams,
): Promise<readonly OrchestrationItem[]> {
  const { definitions, beginLimits } = store;
  if (beginLimits.isKnown) return [];
  const sentAt = store.monotonic();
  const { rows, secret } = await claim({ maxMessages: defaultMaxMessages, ...params });
  const [first] = rows;
  if (first === undefined) return [];
  const { now } = first;
  store.claimed({ topic: 'orchestrations', now, sentAt, leaseEnd: now + params.lockMs });
  const needed = rows.map(({ definitionKey }) => definitionKey);
  if (!definitions.knows(needed)) {
    await store.read('fetchOrchestrationItems', (tx) => definitions.load(tx, needed));
  }
  const items = new Map<number, { item: OrchestrationItem; messages: FetchedMessage[] }>();
  for (const row of rows) {
    const { instanceKey, claims, messageExecutionId: executionId } = row;
    const message = toMessage({ ...row, executionId });
    const known = items.get(instanceKey);
    if (known !== undefined) known.messages.push(message);
    else {
      const messages = [message];
      items.set(instanceKey, {
        item: toItem(store, { claims, row, secret, now, messages }),
        messages,
      });
    }
  }
  return Array.from(items.values(), ({ item }) => item);
}

async function claim(
  store: OrchestrationQueueParts,
  scope: Scope,
  params: FetchOrchestrationItemsParams,
): Promise<readonly OrchestrationItem[]> {
  const chosen = await chooseWithPlaces(store, scope, params);
  if (chosen.length === 0) return [];
  const { tx, now } = scope;
  const { lockMs, maxMessages = defaultMaxMessages, worker = null } = params;
  const lockedUntil = now + Math.ceil(lockMs);
  const keys = chosen.map(({ instanceKey }) => instanceKey);
  const claims = keys.map((instanceKey) => ({ instanceKey, secret: store.secrets.next() }));
  const [, rows, messages] = await Promise.all([
    store.locks.claim(tx, claims, { now, lockedUntil, worker }),
    store.instances.select(tx, keys),
    store.messages.readVisible(tx, keys, now, maxMessages),
  ]);
  const instances = new Map(rows.map((row) => [row.instanceKey, row]));
  const byInstance = Map.groupBy(messages, ({ instanceKey }) => instanceKey);
  await Promise.all([
    store.definitions.load(
      tx,
      rows.map(({ definitionKey }) => definitionKey),
    ),
    dropUnreadable(store, scope, chosen, { instances, byInstance }),
    putExpiredFirst(store, scope, { rows, byInstance, max: maxMessages }),
    addStarts(store, scope, { rows, byInstance, max: maxMessages }),
  ]);
  scope.effects.due('orchestrations', now + lockMs);
  return chosen.flatMap((due, index) => {
    const row = instances.get(due.instanceKey);
    const own = byInstance.get(due.instanceKey);
    const secret = claims[index]?.secret;
    if (row === undefined || own === undefined || isOver(row) || secret === undefined) return [];
    const counted = due.claims + 1;
    return [toItem(store, { claims: counted, row, secret, now, messages: own.map(toMessage) })];
  });
}

/** Chooses due instances that have a place, or need none. Those beyond a limit wait. */
async function chooseWithPlaces(
  { beginLimits, dueInstances }: OrchestrationQueueParts,
  scope: Scope,
  params: FetchOrchestrationItemsParams,
): Promise<readonly DueInstance[]> {
  const { tx } = scope;
  const { runnable } = params;
  if (!beginLimits.isKnown) {
    const [chosen, gates] = await Promise.all([
      dueInstances.choose(scope, params),
      beginLimits.gates(tx),
    ]);
    // Limits are locked before instances. The claim that follows does so.
    return gates.length === 0 ? chosen : [];
  }
  const gates = await beginLimits.lock(tx, runnable);
  await beginLimits.admit(tx, gates, params);
  for (let round = 0; ; round += 1) {
    const due = await dueInstances.choose(scope, params);
    if (gates.length === 0) return due;
    const placed = await beginLimits.holdBack(tx, gates, due);
    if (placed.length === due.length || round === maxRounds) return placed;
    await beginLimits.admit(tx, gates, params);
  }
}

/** Deletes the queues of ended instances, and undoes claims of instances without a visible message. */
async function dropUnreadable(
  store: OrchestrationQueueParts,
  { tx }: Scope,
  chosen: readonly DueInstance[],
  {
    instances,
    byInstance,
  }: {
    readonly instances: ReadonlyMap<number, InstanceRow>;
    readonly byInstance: ReadonlyMap<number, readonly MessageOf[]>;
  },
): Promise<void> {
  const over: number[] = [];
  const empty: number[] = [];
  for (const { instanceKey } of chosen) {
    const row = instances.get(instanceKey);
    if (row === undefined || isOver(row)) over.push(instanceKey);
    else if (!byInstance.has(instanceKey)) empty.push(instanceKey);
  }
  await Promise.all([
    store.messages.deleteAll(tx, over),
    store.locks.delete(tx, over),
    store.locks.correct(tx, empty),
  ]);
}

/** The messages that a claim read. */
interface ReadMessages {
  readonly rows: readonly InstanceRow[];
  readonly byInstance: Map<number, MessageOf[]>;
  readonly max: number;
}

/** If the messages were cut at the maximum, puts a due end of the clean-up limit first. */
async function putExpiredFirst(
  store: OrchestrationQueueParts,
  { tx, now }: Scope,
  { rows, byInstance, max }: ReadMessages,
): Promise<void> {
  const cut = rows.filter(
    ({ instanceKey, status }) =>
      status === 'canceling' && (byInstance.get(instanceKey)?.length ?? 0) >= max,
  );
  const keys = cut.map(({ instanceKey }) => instanceKey);
  for (const expired of await store.messages.readCleanupExpired(tx, keys, now)) {
    const { instanceKey, messageKey } = expired;
    const others = (byInstance.get(instanceKey) ?? []).filter(
      (message) => message.messageKey !== messageKey,
    );
    byInstance.set(instanceKey, [expired, ...others.slice(0, max - 1)]);
  }
}

/** Adds the start message of an instance without history. It may sort last after the clock was set back. */
async function addStarts(
  store: OrchestrationQueueParts,
  { tx }: Scope,
  { rows, byInstance, max }: ReadMessages,
): Promise<void> {
  const without = rows.filter(
    ({ instanceKey, historyLength }) =>
      historyLength === 0 && byInstance.get(instanceKey)?.some(isStart) === false,
  );
  const keys = without.map(({ instanceKey }) => instanceKey);
  for (const start of await store.messages.readStarts(tx, keys)) {
    const others = byInstance.get(start.instanceKey) ?? [];
    byInstance.set(start.instanceKey, [start, ...others.slice(0, max - 1)]);
  }
}

function isStart({ kind }: MessageOf): boolean {
  return kind === 'start';
}

function toItem(
  store: OrchestrationQueueParts,
  claimed: {
    readonly claims: number;
    readonly row: ClaimedRow;
    readonly secret: string;
    readonly now: number;
    readonly messages: readonly FetchedMessage[];
  },
): OrchestrationItem {
  const { claims, row, secret, now, messages } = claimed;
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
    claims,
    lastTurn: row.lastTurn,
    historyLength: row.historyLength,
    nowMs: now,
    messages,
  };
}

function toMessage(message: FetchedMessage): FetchedMessage {
  const { messageKey, kind, executionId, operation, data, payload } = message;
  return { messageKey, kind, executionId, operation, data, payload };
}
