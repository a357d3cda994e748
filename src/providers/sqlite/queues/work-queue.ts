import { LockLostError } from '../../../model/failures/errors.ts';
import { isTerminal, type TerminalStatus } from '../../../model/status.ts';
import type { CommitResult } from '../../contract/turn.ts';
import type {
  FetchWorkItemsParams,
  HandBackResult,
  TurnAck,
  WorkItem,
  WorkItemAbandon,
  WorkItemAck,
  WorkItemRetry,
  WorkOutcome,
  WorkQueue,
} from '../../contract/work-queue.ts';
import { outcomeMessage } from '../../rules/outcome-message.ts';
import { chooseDue, isClaimed, isLongDue, planHandBack } from '../../rules/claims.ts';
import { fenceBreach, fenceMessagesUntil, turnError } from '../../rules/turns.ts';
import type { DueItem, DueItems } from './due-items.ts';
import type { Scope, StoreAccess } from '../batches/group-commit.ts';
import type { ChosenItem, Lanes } from '../limits/lanes.ts';
import type { HeldItem, WorkItems } from '../tables/work-items.ts';
import type { Definitions } from '../tables/definitions.ts';
import type { InstanceRow, InstanceRows } from '../tables/instance-rows.ts';
import type { InstanceLocks } from '../tables/instance-locks.ts';
import type { Messages } from '../tables/messages.ts';
import type { PausedDefinitions } from '../tables/pause-rows.ts';
import type { StopRows } from '../tables/stop-rows.ts';
import type { InstanceStops } from '../stopping/instance-stops.ts';
import type { TaskRuns } from '../tasks/task-runs.ts';
import type { Tombstones } from '../tables/tombstones.ts';
import type { Turns } from '../instances/turns.ts';
import { itemKind, toCancelInfo } from '../../shared/work-item-row.ts';

/** The parts of the store that a work queue uses. */
export interface WorkQueueParts extends StoreAccess {
  readonly definitions: Definitions;
  readonly dueItems: DueItems;
  readonly instances: InstanceRows;
  readonly lanes: Lanes;
  readonly locks: InstanceLocks;
  readonly messages: Messages;
  readonly pausedDefinitions: PausedDefinitions;
  readonly stopRows: StopRows;
  readonly stops: InstanceStops;
  readonly taskRuns: TaskRuns;
  readonly tombstones: Tombstones;
  readonly turns: Turns;
  readonly workItems: WorkItems;
}

/** Claims, acks and releases work items. */
export function createWorkQueue(store: WorkQueueParts): WorkQueue {
  return {
    fetchWorkItems: (params) =>
      store.fetch({
        ...params,
        operation: 'fetchWorkItems',
        topic: 'work',
        key: JSON.stringify(['work', params.names, params.tasks]),
        nextAt: (now) => nextAt(store, params, now),
        claim: (scope) => claim(store, scope, params),
      }),

    ackWorkItems: (acks) =>
      store.write('ackWorkItems', acks, (scope, one) => ackItem(store, scope, one)),

    ackTurns: (acks) => store.write('ackTurns', acks, (scope, one) => ackTurn(store, scope, one)),

    renewWorkItemLocks: (renewals, extendMs) =>
      store.write('renewWorkItemLocks', renewals, ({ now }, { lockToken, heartbeat }) => {
        const until = now + Math.ceil(extendMs);
        const cancel = store.workItems.renew({ lockToken, now, until, heartbeat });
        if (cancel !== undefined) return { held: true, cancel };
        return store.tombstones.has(lockToken, now)
          ? { held: false, deleted: true }
          : { held: false };
      }),

    abandonWorkItems: (abandons) =>
      store.write('abandonWorkItems', abandons, (scope, one) => handBack(store, scope, one)),

    retryWorkItems: (retries) =>
      store.write('retryWorkItems', retries, (scope, one) => handBack(store, scope, one)),
  };
}

/** Settles a claimed item. */
export function ackItem(
  store: WorkQueueParts,
  scope: Scope,
  { lockToken, outcome }: WorkItemAck,
): CommitResult {
  const result = scope.isolate('ackWorkItems', (): CommitResult => {
    const item = store.workItems.heldBy(lockToken, scope.now);
    if (item === undefined) return lost('ackWorkItems');
    const ended = settle(store, scope, { item, outcome });
    return { ok: true, claimed: [], ...(ended !== undefined && { ended }) };
  });
  return result.ok ? result.value : result;
}

/** Settles items and commits the turn that they caused. */
export function ackTurn(store: WorkQueueParts, scope: Scope, ack: TurnAck): CommitResult {
  const result = scope.isolate('ackTurns', (): CommitResult => {
    const { now } = scope;
    const { instanceKey, turn, timers = [] } = ack;
    const row = store.instances.get(instanceKey);
    const lock = row === undefined ? undefined : store.locks.get(instanceKey);
    // An instance without a row in `instance_locks` has no messages.
    const visible =
      lock === undefined
        ? []
        : store.messages.readVisible(instanceKey, fenceMessagesUntil(ack, now), timers.length + 1);
    const items = ack.lockTokens.map((token) => store.workItems.heldBy(token, now));
    const breach = fenceBreach(ack, {
      instance: row,
      isPaused: row !== undefined && isPaused(store, scope, row),
      isClaimed: isClaimed(lock, now),
      hasVisible: visible.length > 0,
      visible,
      items,
    });
    if (row === undefined || breach !== undefined) return lost('ackTurns');
    const target = { ...row, hasLockRow: lock !== undefined };
    const error = turnError(target, turn, 'ackTurns');
    if (error !== undefined) return { ok: false, error };
    for (const item of items) if (item !== undefined) store.workItems.delete(item.itemKey);
    // The end of an instance deletes all of its messages.
    if (!isTerminal(turn.outcome.status)) {
      store.messages.delete(
        instanceKey,
        visible.map(({ messageKey }) => messageKey),
      );
    }
    return { ok: true, ...store.turns.commit(scope, target, turn) };
  });
  return result.ok ? result.value : result;
}

function isPaused(store: WorkQueueParts, scope: Scope, row: InstanceRow): boolean {
  if (row.isPaused === 1) return true;
  const { name } = store.definitions.get(row.definitionKey);
  return store.pausedDefinitions.has(scope, 'orchestration', name);
}

function lost(operation: string): CommitResult {
  return { ok: false, error: new LockLostError(operation) };
}

function handBack(
  store: WorkQueueParts,
  scope: Scope,
  request: WorkItemAbandon | WorkItemRetry,
): HandBackResult {
  const { now, effects } = scope;
  const evenIfExpired = 'unstarted' in request ? request.unstarted : false;
  const item = store.workItems.heldBy(request.lockToken, now, { evenIfExpired });
  if (item === undefined) return false;
  const plan = planHandBack(item, request, now);
  if (plan.kind === 'cancel') {
    return settle(store, scope, { item, outcome: { kind: 'canceled', leaked: false } }) ?? true;
  }
  const { nextAt, claims, failure, explanation, maxAttempts } = plan;
  if (failure !== undefined && isTask(store, item)) store.taskRuns.retried(item);
  const { itemKey } = item;
  store.workItems.handBack({ itemKey, nextAt, claims, failure, explanation, maxAttempts });
  effects.due('work', nextAt);
  if (plan.unstarted && isTask(store, item)) store.taskRuns.unstarted(scope, item);
  return true;
}

function isTask(
  { definitions }: WorkQueueParts,
  { definitionKey }: HeldItem | DueItem | ChosenItem,
): boolean {
  return definitions.get(definitionKey).kind === 'task';
}

/** Deletes an item and sends its outcome to its execution. Returns the status of a task run that ended. */
function settle(
  store: WorkQueueParts,
  scope: Scope,
  { item, outcome }: { readonly item: HeldItem; readonly outcome: WorkOutcome },
): TerminalStatus | undefined {
  if (isTask(store, item)) return store.taskRuns.settle(scope, item, outcome);
  const message = outcomeMessage(item, outcome, () => store.workItems.cancelOf(item.itemKey));
  store.workItems.delete(item.itemKey);
  if (outcome.kind === 'canceled' && outcome.leaked) store.stopRows.countLeaked(item.instanceKey);
  const instance = store.instances.get(item.instanceKey);
  if (instance?.status === 'canceling' && store.stops.finishClosing(scope, item.instanceKey))
    return undefined;
  const goesOn = instance?.executionId === item.executionId && !isTerminal(instance.status);
  if (!goesOn) return undefined;
  store.messages.insert(instance.instanceKey, message, scope.now);
  if (store.locks.touch(instance.instanceKey, instance.definitionKey, scope.now))
    scope.effects.messages.add(instance.instanceKey);
  scope.effects.due('orchestrations', scope.now);
  return undefined;
}

const keyOf = ({ itemKey }: DueItem): number => itemKey;

function nextAt(store: WorkQueueParts, params: FetchWorkItemsParams, now: number): number {
  const { plain, limited } = definitionKeys(store, params);
  const first = store.dueItems.firstNextAt(plain, now);
  return limited.length === 0 ? first : Math.min(first, store.lanes.nextAt(limited, now));
}

function claim(store: WorkQueueParts, scope: Scope, params: FetchWorkItemsParams) {
  const { now } = scope;
  const { max, lockMs, worker = null } = params;
  store.taskRuns.expireDue(scope);
  const keys = definitionKeys(store, params);
  const select = (suspect: boolean, max: number): DueItem[] =>
    keys.plain.flatMap((definitionKey) =>
      store.dueItems.select({ definitionKey, suspect, now, max }),
    );
  // A flagged item is ended without running, so it cannot crash the process, and needs no place.
  const trusted = [...store.dueItems.selectFlagged(now, max), ...select(false, max)];
  const suspects = select(true, 1);
  const items: WorkItem[] = [];
  const take = (due: DueItem | ChosenItem, hasPlace: boolean): void => {
    if (due.isExpired) store.taskRuns.expire(scope, due);
    else {
      const item = claimOne(store, scope, { due, lockMs, worker, hasPlace });
      if (item !== undefined) items.push(item);
    }
  };
  const plain = (count: number, suspects: readonly DueItem[]): void => {
    for (const due of chooseDue({ max: count, trusted, suspects, keyOf })) take(due, false);
  };
  if (keys.limited.length === 0) plain(max, suspects);
  else claimWithLanes(store, scope, { keys: keys.limited, max, trusted, suspects, plain, take });
  if (items.length > 0) scope.effects.due('work', now + lockMs);
  return items;
}

/** Claims items of unlimited and limited definitions, so that neither starve the others. A suspect comes alone. */
function claimWithLanes(
  { lanes }: WorkQueueParts,
  scope: Scope,
  {
    keys,
    max,
    trusted,
    suspects,
    plain,
    take,
  }: {
    readonly keys: readonly number[];
    readonly max: number;
    readonly trusted: readonly DueItem[];
    readonly suspects: readonly DueItem[];
    readonly plain: (count: number, suspects: readonly DueItem[]) => void;
    readonly take: (item: ChosenItem, hasPlace: boolean) => void;
  },
): void {
  lanes.sweep(scope);
  const takeSuspect = (suspect: ChosenItem): void => {
    lanes.claimSuspect(scope, suspect);
    take(suspect, true);
  };
  const suspect = lanes.dueSuspect(scope, keys);
  if (suspect !== undefined && isLongDue(suspect, scope.now)) return takeSuspect(suspect);
  const [first] = chooseDue({ max: 1, trusted, suspects, keyOf });
  const isOverdue = trusted.length > 0 && suspects.some((one) => one === first);
  if (isOverdue) return plain(max, suspects);
  const share = lanes.shareOf(max, trusted.length);
  const claimed = lanes.claim(scope, keys, share, (item) => take(item, true));
  if (trusted.length > 0) return plain(max - claimed, []);
  if (claimed > 0) return;
  if (suspect !== undefined && (first === undefined || suspect.nextAt < first.nextAt)) {
    takeSuspect(suspect);
  } else plain(max, suspects);
}

function claimOne(
  store: WorkQueueParts,
  scope: Scope,
  {
    due,
    lockMs,
    worker,
    hasPlace,
  }: {
    readonly due: DueItem | ChosenItem;
    readonly lockMs: number;
    readonly worker: string | null;
    readonly hasPlace: boolean;
  },
): WorkItem | undefined {
  const { now } = scope;
  const by = { worker, now, lockedUntil: now + Math.ceil(lockMs) };
  const claimed = store.workItems.claim(due.itemKey, by, {
    isTask: isTask(store, due),
    hasPlace,
  });
  if (claimed === undefined) return undefined;
  const { lockToken, row } = claimed;
  const { run } = row;
  const kind = itemKind(run !== undefined, row.operation);
  if (run !== undefined) store.taskRuns.started(scope, row, run);
  const item: WorkItem = {
    kind,
    lockToken,
    instanceKey: row.instanceKey,
    instanceId: row.instanceId,
    incarnation: row.incarnation,
    executionId: row.executionId,
    operation: row.operation,
    name: store.definitions.get(row.definitionKey).name,
    orchestration: store.definitions.get(row.instanceDefinitionKey).name,
    payload: run === undefined ? row.payload : run.input,
    options: run !== undefined && kind === 'task' ? run.options : row.options,
    claims: row.claims,
    failures: row.failures,
    heartbeat: row.heartbeat,
    cancel: toCancelInfo(row),
    nowMs: now,
    dueAt: due.nextAt,
    ...(typeof row.headers === 'string' && { headers: row.headers }),
    ...(kind === 'onFail' && run !== undefined && run.failure !== null && { failure: run.failure }),
  };
  return 'isLimited' in due && due.isLimited ? { ...item, limited: true } : item;
}

/** The keys of the definitions that a worker can run and that are not paused: unlimited, and limited. */
function definitionKeys(
  { definitions }: WorkQueueParts,
  { names, tasks }: Pick<FetchWorkItemsParams, 'names' | 'tasks'>,
) {
  const keysOf = (kind: 'activity' | 'task', named: readonly string[] | undefined) =>
    definitions.findByPause(
      kind,
      named?.map((name) => ({ name, version: null })),
    ).claimable;
  return definitions.byLimit([...keysOf('activity', names), ...keysOf('task', tasks)]);
}
