import type { CancelDetails } from '../../../model/cancel.ts';
import type { TerminalStatus } from '../../../model/status.ts';
import type { CreateTaskResult, NewTask, TaskStore } from '../../contract/tasks.ts';
import type { WorkOutcome } from '../../contract/work-queue.ts';
import { parseFailure } from '../../rules/outcome-message.ts';
import { taskTimes, type TaskTimes } from '../../rules/starts.ts';
import { movedDelay } from '../../rules/start-keys.ts';
import type { Scope, StoreAccess } from '../batches/group-commit.ts';
import type {
  DedupeKeys,
  ExpiredItem,
  TaskItems,
  EndedRun,
  FailedRun,
  TaskRows,
} from '../tables/task-rows.ts';
import type { LaneRows } from '../limits/lane-rows.ts';
import type { Lanes } from '../limits/lanes.ts';
import type { Definitions } from '../tables/definitions.ts';
import { findExistingStart, type InstanceRows } from '../tables/instance-rows.ts';
import type { InstanceDeadlines } from '../tables/instance-deadlines.ts';
import type { InstanceTags } from '../tables/instance-tags.ts';
import type { MovedStarts } from '../starts/moved-starts.ts';
import type { StartKeys } from '../starts/start-keys.ts';
import type { ItemCancels } from '../tables/item-cancels.ts';
import type { PauseRows } from '../tables/pause-rows.ts';
import type { StopRows } from '../tables/stop-rows.ts';
import type { ClaimedItem, ClaimedRun, HeldItem, WorkItems } from '../tables/work-items.ts';
import { toCancelRow } from '../../shared/instance-record-row.ts';
import { useExistingTask, type ExistingTaskParts } from './existing-tasks.ts';
import { onFailOperation, taskOperation } from '../../shared/work-item-row.ts';

/** The parts of the store that create task runs. */
export type TaskParts = StoreAccess & ExistingTaskParts;

interface Run {
  readonly instanceKey: number;
  readonly definitionKey: number;
}

type StopRequest = CancelDetails;

// The highest priority: failures are handled before more work starts.
const onFailPriority = 100;

// Bounds the time that one claim spends on expired runs.
const maxExpiredAtOnce = 500;

/** Creates, starts, retries and ends task runs: an instance, its item and its dedupe key. */
export class TaskRuns {
  readonly #definitions: Definitions;
  readonly #instances: InstanceRows;
  readonly #rows: TaskRows;
  readonly #keys: DedupeKeys;
  readonly #workItems: WorkItems;
  readonly #items: TaskItems;
  readonly #itemCancels: ItemCancels;
  readonly #pauseRows: PauseRows;
  readonly #stopRows: StopRows;
  readonly #tags: InstanceTags;
  readonly #deadlines: InstanceDeadlines;
  readonly #startKeys: StartKeys;
  readonly #movedStarts: MovedStarts;
  readonly #lanes: Lanes;
  readonly #laneRows: LaneRows;

  constructor(parts: {
    readonly definitions: Definitions;
    readonly instances: InstanceRows;
    readonly taskRows: TaskRows;
    readonly dedupeKeys: DedupeKeys;
    readonly workItems: WorkItems;
    readonly taskItems: TaskItems;
    readonly itemCancels: ItemCancels;
    readonly pauseRows: PauseRows;
    readonly stopRows: StopRows;
    readonly instanceTags: InstanceTags;
    readonly deadlines: InstanceDeadlines;
    readonly startKeys: StartKeys;
    readonly movedStarts: MovedStarts;
    readonly lanes: Lanes;
    readonly laneRows: LaneRows;
  }) {
    this.#definitions = parts.definitions;
    this.#instances = parts.instances;
    this.#rows = parts.taskRows;
    this.#keys = parts.dedupeKeys;
    this.#workItems = parts.workItems;
    this.#items = parts.taskItems;
    this.#itemCancels = parts.itemCancels;
    this.#pauseRows = parts.pauseRows;
    this.#stopRows = parts.stopRows;
    this.#tags = parts.instanceTags;
    this.#deadlines = parts.deadlines;
    this.#startKeys = parts.startKeys;
    this.#movedStarts = parts.movedStarts;
    this.#lanes = parts.lanes;
    this.#laneRows = parts.laneRows;
  }

  create(scope: Scope, task: NewTask): CreateTaskResult {
    const { now } = scope;
    const { dedupeKey, dedupeMs, debounce } = task;
    const definitionKey = this.#definitions.intern('task', task.name, null);
    const moved = debounce && this.#move(scope, definitionKey, { ...task, debounce });
    if (moved !== undefined) return { kind: 'active', instanceId: moved };
    const active =
      dedupeKey === undefined ? undefined : this.#keys.holderOf(definitionKey, dedupeKey);
    const holder =
      active !== undefined || dedupeKey === undefined || dedupeMs === undefined
        ? active
        : this.#startKeys.windowOf(definitionKey, dedupeKey, now);
    if (holder !== undefined) return this.#existingOrActive(task, holder);
    const times = taskTimes(task, now);
    const { runAt, expiresAt } = times;
    const instanceKey = this.#rows.insert(task, { definitionKey, now, runAt, expiresAt });
    if (instanceKey === undefined) return this.#existing(task);
    this.#tags.add(instanceKey, task.tags);
    this.#deadlines.add(instanceKey, task, now);
    if (dedupeKey !== undefined) {
      this.#keys.take(definitionKey, dedupeKey, instanceKey);
      const window = { definitionKey, key: dedupeKey, instanceKey };
      if (dedupeMs !== undefined) this.#startKeys.addWindow(window, dedupeMs, now);
    }
    const nextAt = this.#enqueue(scope, { instanceKey, definitionKey }, task, times);
    if (debounce !== undefined) {
      const run = { instanceKey, startsAt: nextAt, now };
      this.#startKeys.addDebounced(definitionKey, debounce, run);
    }
    return { kind: 'created', instanceKey };
  }

  /** Queues a run. Returns when it may start. */
  #enqueue(
    scope: Scope,
    { instanceKey, definitionKey }: Run,
    task: NewTask,
    { runAt, expiresAt }: TaskTimes,
  ): number {
    const { now, effects } = scope;
    // A run whose time has passed is queued behind those that already wait.
    const nextAt = Math.max(runAt ?? now, now);
    const lane = this.#lanes.enqueue(scope, { limitKey: definitionKey, nextAt, lane: task.lane });
    if (task.lane !== undefined) this.#laneRows.addRun(instanceKey, task.lane);
    this.#items.insert({
      instanceKey,
      operation: taskOperation,
      definitionKey,
      priority: task.priority,
      nextAt,
      expiresAt,
      lane,
      options: null,
      now,
    });
    effects.due('work', Math.min(nextAt, expiresAt ?? Infinity));
    return nextAt;
  }

  /** Queues the next execution of an ended run with another start. `reopen` writes its row. */
  replace(scope: Scope, run: Run, task: NewTask, reopen: (times: TaskTimes) => void): void {
    const { instanceKey, definitionKey } = run;
    const times = taskTimes(task, scope.now);
    this.#keys.free({ instanceKey, definitionKey, dedupeKey: this.#rows.keyOf(instanceKey) });
    reopen(times);
    this.#laneRows.deleteRuns(JSON.stringify([instanceKey]));
    this.#deadlines.replace(instanceKey, task, scope.now);
    this.#tags.replace(instanceKey, task.tags);
    this.#enqueue(scope, run, task, times);
  }

  /** Moves the run of a debounce key that has not started. Returns its id, or `undefined` if there is none. */
  #move(
    scope: Scope,
    definitionKey: number,
    task: NewTask & Required<Pick<NewTask, 'debounce'>>,
  ): string | undefined {
    const { now, effects } = scope;
    const { debounce } = task;
    const run = this.#startKeys.debounced(definitionKey, debounce.key);
    if (run === undefined || run.requestKey === debounce.requestKey) return run?.instanceId;
    const { instanceKey, instanceId, createdAt } = run;
    const delayMs = movedDelay(task, { createdAt, now });
    const times = taskTimes({ ...task, delayMs }, now);
    const nextAt = now + delayMs;
    const own = this.#laneRows.runOf(instanceKey);
    const lane = this.#lanes.enqueue(scope, { limitKey: definitionKey, nextAt, lane: own });
    const moved = { ...times, nextAt, lane };
    if (!this.#movedStarts.moveTask(instanceKey, task, moved)) return undefined;
    this.#deadlines.replace(instanceKey, { ...task, delayMs }, now);
    this.#tags.replace(instanceKey, task.tags);
    this.#startKeys.moved(definitionKey, debounce, nextAt);
    effects.due('work', Math.min(nextAt, times.expiresAt ?? Infinity));
    return instanceId;
  }

  /** Records the claim of an item. */
  started({ now }: Scope, { instanceKey, operation }: ClaimedItem, run: ClaimedRun): void {
    if (run.status === 'pending') this.#rows.start(instanceKey, now);
    if (operation === onFailOperation && run.onFail === 'queued') {
      this.#rows.setOnFail(instanceKey, 'running');
    }
  }

  /** Makes a run pending again that was handed back unstarted after its first claim. */
  unstarted({ effects }: Scope, { itemKey, instanceKey, operation, claimedAt }: HeldItem): void {
    if (operation !== taskOperation) return;
    const expiresAt = this.#rows.unstart(instanceKey, claimedAt);
    if (expiresAt === null) return;
    this.#items.setExpiry(itemKey, expiresAt);
    effects.due('work', expiresAt);
  }

  /** Counts a failed attempt that will be retried. */
  retried({ instanceKey, operation }: HeldItem): void {
    if (operation === taskOperation) this.#rows.countFailure(instanceKey);
  }

  /** Deletes an item. If it was the run itself, ends the run and returns its status. */
  settle(scope: Scope, item: HeldItem, outcome: WorkOutcome): TerminalStatus | undefined {
    const { instanceKey } = item;
    if (outcome.kind === 'failed') parseFailure(outcome.failure);
    this.#workItems.delete(item.itemKey);
    if (outcome.kind === 'canceled' && outcome.leaked) this.#stopRows.countLeaked(instanceKey);
    if (item.operation === onFailOperation) {
      const failure = outcome.kind === 'failed' ? outcome.failure : null;
      const state = outcome.kind === 'completed' ? 'completed' : 'failed';
      this.#rows.endOnFail(instanceKey, state, failure);
      return undefined;
    }
    // A run that was asked to stop ends as canceled, whatever the outcome.
    const isStopped = item.cancelRequested === 1 || outcome.kind === 'canceled';
    const ended = isStopped ? this.#cancelEnd(scope, item) : this.#end(scope, item, outcome);
    if (ended !== undefined && item.isPaused === 1) this.#pauseRows.lift(instanceKey);
    if (ended !== undefined) return isStopped ? 'canceled' : outcome.kind;
    // The run was terminated before. Only its key is left.
    this.#keys.free({ ...item, dedupeKey: this.#rows.keyOf(instanceKey) });
    return undefined;
  }

  /** Cancels a run: immediately, unless a worker holds it or it is past its point of no return. */
  cancel(scope: Scope, run: Run, stop: StopRequest): void {
    const { now, effects } = scope;
    const { instanceKey } = run;
    const { reason, trigger = 'cancel' } = stop;
    const items = { instanceKey, now, reason, trigger } as const;
    const { flagged, keeps } = this.#itemCancels.cancelAll('request', items);
    effects.addCancelRequests(flagged);
    const request = { instanceKey, now, ...toCancelRow(stop) };
    if (keeps) this.#rows.requestCancel(request);
    else this.#ended(scope, run, this.#rows.cancel(request));
  }

  /** Terminates a run. Its dedupe key is freed when its handler has stopped. */
  terminate(scope: Scope, run: Run, { reason, actor }: StopRequest): void {
    const { now, effects } = scope;
    const { instanceKey } = run;
    const ended = this.#rows.terminate({ instanceKey, now, reason, actor });
    if (ended === undefined) return;
    const items = { instanceKey, now, reason, trigger: 'cancel' } as const;
    const { flagged, keeps } = this.#itemCancels.cancelAll('terminate', items);
    effects.addCancelRequests(flagged);
    effects.finished.push(ended.instanceId);
    if (!keeps) this.#keys.free({ ...run, ...ended });
  }

  /** Ends expired runs, at most 500 per call. */
  expireDue(scope: Scope): void {
    for (const item of this.#items.selectExpired(scope.now, maxExpiredAtOnce)) {
      this.#expire(scope, item);
    }
  }

  /** Ends one expired run. */
  expire(
    scope: Scope,
    { itemKey, definitionKey }: Pick<ExpiredItem, 'itemKey' | 'definitionKey'>,
  ): void {
    const instanceKey = this.#items.instanceOf(itemKey);
    if (instanceKey === undefined) return;
    // A claim does not find the item of a paused run.
    this.#expire(scope, { itemKey, definitionKey, instanceKey, isPaused: 0 });
  }

  #expire(scope: Scope, item: ExpiredItem): void {
    this.#workItems.delete(item.itemKey);
    if (item.isPaused === 1) this.#pauseRows.lift(item.instanceKey);
    this.#ended(scope, item, this.#rows.expire(item.instanceKey, scope.now));
  }

  /** Ends a run with the outcome of its handler. Returns `undefined` if it has already ended. */
  #end(
    scope: Scope,
    item: HeldItem,
    outcome: Exclude<WorkOutcome, { kind: 'canceled' }>,
  ): EndedRun | undefined {
    const { now } = scope;
    const { instanceKey } = item;
    switch (outcome.kind) {
      case 'completed':
        return this.#ended(scope, item, this.#rows.complete(instanceKey, outcome.payload, now));
      case 'skipped':
        return this.#ended(scope, item, this.#rows.skip(instanceKey, now));
      case 'failed': {
        const failed = this.#rows.fail(instanceKey, outcome.failure, now);
        const ended = this.#ended(scope, item, failed);
        if (failed !== undefined) this.#enqueueOnFail(scope, item, { failed, outcome });
        return ended;
      }
    }
  }

  #cancelEnd(scope: Scope, { instanceKey, definitionKey }: HeldItem): EndedRun | undefined {
    const canceled = {
      instanceKey,
      now: scope.now,
      reason: 'canceled',
      actor: null,
      trigger: null,
    };
    return this.#ended(scope, { instanceKey, definitionKey }, this.#rows.cancel(canceled));
  }

  /** Frees the key of an ended run and notifies waiters. */
  #ended({ effects }: Scope, run: Run, ended: EndedRun | undefined): EndedRun | undefined {
    if (ended === undefined) return undefined;
    const { instanceKey, definitionKey } = run;
    this.#keys.free({ instanceKey, definitionKey, dedupeKey: ended.dedupeKey });
    effects.finished.push(ended.instanceId);
    return ended;
  }

  /** The lane of another item of a run: its `onFail` handler, or a rerun. */
  laneOf(scope: Scope, { instanceKey, definitionKey }: Run): string | null {
    if (!this.#lanes.isLimited(scope, definitionKey)) return null;
    const lane = this.#laneRows.runOf(instanceKey);
    return this.#lanes.enqueue(scope, { limitKey: definitionKey, lane, nextAt: scope.now });
  }

  #enqueueOnFail(
    scope: Scope,
    { instanceKey, definitionKey }: Run,
    {
      failed,
      outcome,
    }: { readonly failed: FailedRun; readonly outcome: Extract<WorkOutcome, { kind: 'failed' }> },
  ): void {
    const onFail = failed.onFail === null ? outcome.onFail : { options: failed.onFailOptions };
    if (onFail === undefined) return;
    const { now, effects } = scope;
    const lane = this.laneOf(scope, { instanceKey, definitionKey });
    const { options } = onFail;
    const priority = onFailPriority;
    const item = { instanceKey, operation: onFailOperation, definitionKey, priority, options };
    this.#items.insert({ ...item, lane, nextAt: now, expiresAt: null, now });
    this.#rows.setOnFail(instanceKey, 'queued');
    effects.due('work', now);
  }

  #existingOrActive(task: NewTask, holder: string): CreateTaskResult {
    const isKnown = this.#instances.findStart(task.instanceId) !== undefined;
    return isKnown ? this.#existing(task) : { kind: 'active', instanceId: holder };
  }

  #existing(task: NewTask): CreateTaskResult {
    const parts = { instances: this.#instances, definitions: this.#definitions };
    return findExistingStart(parts, 'task', task);
  }
}

/** Creates task runs. Instances and work items cover the rest of their lifecycle. */
export function createTaskStore(store: TaskParts): TaskStore {
  const write = (tasks: readonly NewTask[]) =>
    store.write('createTasks', tasks, (scope, one) => createTask(store, scope, one));
  return {
    createTasks: (tasks) => (tasks.length <= pageSize ? write(tasks) : writePages(tasks, write)),
  };
}

// A transaction blocks the event loop.
const pageSize = 1_000;

async function writePages(
  tasks: readonly NewTask[],
  write: (tasks: readonly NewTask[]) => Promise<readonly CreateTaskResult[]>,
): Promise<readonly CreateTaskResult[]> {
  const results: CreateTaskResult[] = [];
  for (let from = 0; from < tasks.length; from += pageSize) {
    results.push(...(await write(tasks.slice(from, from + pageSize))));
  }
  return results;
}

/** Creates one task run. An error rolls back only this one. */
export function createTask(store: TaskParts, scope: Scope, task: NewTask): CreateTaskResult {
  if (store.deletedStarts.has(task)) return { kind: 'exists' };
  const result = scope.isolate('createTasks', () => {
    const created = store.taskRuns.create(scope, task);
    const isTaken = created.kind === 'exists' || created.kind === 'conflict';
    if (!isTaken || task.onConflict === undefined) return created;
    return useExistingTask(store, scope, task);
  });
  return result.ok ? result.value : { kind: 'refused', error: result.error };
}
