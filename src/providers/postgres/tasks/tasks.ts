import { ProviderError } from '../../../model/failures/errors.ts';
import { isTerminal, type TerminalStatus } from '../../../model/status.ts';
import type { Tags } from '../../../model/values/tags.ts';
import type { CreateTaskResult, NewTask, TaskStore } from '../../contract/tasks.ts';
import type { WorkOutcome } from '../../contract/work-queue.ts';
import { parseFailure } from '../../rules/outcome-message.ts';
import { checkLane } from '../../rules/limits.ts';
import { existingStart } from '../../rules/starts.ts';
import type { BatchResult } from '../batches/batching.ts';
import type { Batch } from '../batches/batch.ts';
import type { StoreAccess } from '../batches/store-access.ts';
import type { InstanceRow, InstanceRows } from '../tables/instance-rows.ts';
import type { InsertedTask, TaskRow, RunEnd, TaskRows } from '../tables/task-rows.ts';
import { readClock, type Scope } from '../driver/scope.ts';
import type { DedupeKeys } from '../tables/dedupe-keys.ts';
import { useExistingTask, type ExistingTaskParts } from './existing-tasks.ts';
import { createKeyedTasks, isKeyed, type KeyedTaskTables } from './keyed-tasks.ts';
import { createPages, pageSize, type PlacedTask, type TaskPagesParts } from './task-pages.ts';
import type { InstanceDeadlines } from '../tables/instance-deadlines.ts';
import type { InstanceTags } from '../tables/instance-tags.ts';
import type { LimitRows } from '../limits/limit-rows.ts';
import type { LimitTriggers } from '../limits/limit-triggers.ts';
import type { Definitions } from '../tables/definitions.ts';
import type { Settlement, HeldItem } from '../tables/work-items.ts';
import { onFailOperation, taskOperation } from '../../shared/work-item-row.ts';

/** The tables that a creation of task runs reads and writes. */
export interface TaskTables extends KeyedTaskTables, ExistingTaskParts {
  readonly definitions: Definitions;
  readonly dedupeKeys: DedupeKeys;
  readonly instances: InstanceRows;
  readonly taskRows: TaskRows;
  readonly instanceTags: InstanceTags;
  readonly deadlines: InstanceDeadlines;
  readonly limitRows: LimitRows;
}

/** Creates task runs. After that, they are instances with one work item. */
export function createTaskStore(
  store: StoreAccess &
    TaskTables & { readonly limitTriggers: LimitTriggers; readonly monotonic: () => number },
  createInOneStatement: (
    tasks: readonly NewTask[],
    now: number | null,
  ) => Promise<BatchResult<CreateTaskResult> | undefined>,
): TaskStore {
  const create = store.batching({
    operation: 'createTasks',
    run: (scope, placed: readonly PlacedTask[]) =>
      createTasks(
        store,
        scope,
        placed.map(({ task }) => task),
      ),
    runSingleStatement: (placed) =>
      createInOneStatement(
        placed.map(({ task }) => task),
        timeOf(placed) ?? store.nowParameter,
      ),
    time: timeOf,
    refused: (error): CreateTaskResult => ({ kind: 'refused', error }),
    maxInFlight: 2,
    maxItems: pageSize,
  });
  const pages: TaskPagesParts = {
    create,
    readClock: () => store.read('createTasks', readClock),
    monotonic: () => store.monotonic(),
    isClockReal: store.nowParameter === null,
  };
  return {
    async createTasks(tasks) {
      // Lists of keys read signals. Without the triggers, they would be empty until the first claim.
      if (tasks.some(({ lane }) => lane !== undefined)) await store.limitTriggers.tryToAdd('items');
      if (tasks.length > pageSize) return createPages(pages, tasks);
      return create(tasks.map((task) => ({ task, createdAt: null })));
    },
  };
}

/**
 * The creation time of the runs of a transaction, or `null`: the time of the transaction. Delays count from it, so a page
 * that shares a transaction with other runs has no time of its own. Such a page is short, so it is the last one of its call.
 */
function timeOf(placed: readonly PlacedTask[]): number | null {
  let latest = Number.NEGATIVE_INFINITY;
  for (const { createdAt } of placed) {
    if (createdAt === null) return null;
    latest = Math.max(latest, createdAt);
  }
  return latest;
}

/** Creates task runs, or finds those of their starts. */
export function createTasks(
  tables: TaskTables,
  scope: Scope,
  tasks: readonly NewTask[],
): Promise<readonly CreateTaskResult[]> {
  return tables.deletedStarts.createUnlessDeleted(scope.tx, tasks, (open) =>
    createAll(tables, scope, open),
  );
}

/** Creates task runs. Those that may find an ended run or move one come last, in list order. */
async function createAll(
  tables: TaskTables,
  scope: Scope,
  tasks: readonly NewTask[],
): Promise<readonly CreateTaskResult[]> {
  await scope.begin();
  const results = [...(await createOrFind(tables, scope, tasks))];
  // One at a time: each may replace a run.
  for (const [index, task] of tasks.entries()) {
    const kind = results[index]?.kind;
    const isTaken = kind === 'exists' || kind === 'conflict';
    if (!isTaken || task.onConflict === undefined) continue;
    results[index] = await useExistingTask(tables, scope, task);
  }
  return results;
}

async function createOrFind(
  tables: TaskTables,
  scope: Scope,
  tasks: readonly NewTask[],
): Promise<readonly CreateTaskResult[]> {
  if (!tasks.some(isKeyed)) return createPlain(tables, scope, tasks);
  const plain = tasks.filter((task) => !isKeyed(task));
  const created = (await createPlain(tables, scope, plain)).values();
  const keyed = (
    await createKeyedTasks(tables, scope, tasks.filter(isKeyed), (some) =>
      createPlain(tables, scope, some),
    )
  ).values();
  return tasks.flatMap((task) => (isKeyed(task) ? keyed : created).next().value ?? []);
}

/** Creates task runs in list order: a task whose id or key an earlier one took gets that one as its result. */
async function createPlain(
  tables: TaskTables,
  scope: Scope,
  tasks: readonly NewTask[],
): Promise<readonly CreateTaskResult[]> {
  const results: (CreateTaskResult | undefined)[] = tasks.map(refusal);
  const valid = tasks.filter((_, index) => results[index] === undefined);
  const keyOf = await tables.definitions.intern(
    scope,
    valid.map(({ name }) => ({ kind: 'task', name, version: null })),
  );
  let open = tasks.flatMap((task, index) =>
    results[index] === undefined
      ? [{ index, task, definitionKey: keyOf('task', task.name, null) }]
      : [],
  );
  await tables.limitRows.ensure(
    scope,
    open.flatMap(({ task, definitionKey }) => (task.lane === undefined ? [] : [definitionKey])),
  );
  while (open.length > 0) {
    const round = withoutConflicts(open);
    for (const { index, result } of await createRound(tables, scope, round)) {
      results[index] = result;
    }
    // Retry if the holder of an id or a key disappeared before it could be read.
    open = open.filter(({ index }) => results[index] === undefined);
  }
  return results.flatMap((result) => result ?? []);
}

interface OpenTask extends TaskRow {
  readonly index: number;
}

interface TaskResult {
  readonly index: number;
  readonly result: CreateTaskResult;
}

/** The tasks that can be inserted together: the first of every id and of every key. */
function withoutConflicts(open: readonly OpenTask[]): readonly OpenTask[] {
  const seen = new Set<string>();
  return open.filter(({ task: { instanceId, dedupeKey }, definitionKey }) => {
    const own = [`id ${instanceId}`];
    if (dedupeKey !== undefined) own.push(keyText({ definitionKey, dedupeKey }));
    const isFirst = own.every((one) => !seen.has(one));
    // Also for a task that has to wait, so that later tasks do not overtake it.
    for (const one of own) seen.add(one);
    return isFirst;
  });
}

function keyText(key: { readonly definitionKey: number; readonly dedupeKey: string }): string {
  return `key ${key.definitionKey} ${key.dedupeKey}`;
}

async function createRound(
  tables: TaskTables,
  scope: Scope,
  round: readonly OpenTask[],
): Promise<readonly TaskResult[]> {
  const { tx, now, effects } = scope;
  const inserted = await tables.taskRows.insert(tx, round, now);
  const conflicting: OpenTask[] = [];
  const unusedKeys: number[] = [];
  const results: TaskResult[] = [];
  const created: { instanceKey: number; tags: Tags | undefined; times: NewTask }[] = [];
  for (const [place, one] of round.entries()) {
    const { instanceKey, isCreated, hasKey, dueAt } = inserted[place] ?? notInserted;
    if (isCreated) {
      effects.due('work', dueAt);
      created.push({ instanceKey, tags: one.task.tags, times: one.task });
      results.push({ index: one.index, result: { kind: 'created', instanceKey } });
    } else {
      conflicting.push(one);
      if (hasKey) unusedKeys.push(instanceKey);
    }
  }
  await tables.instanceTags.add(tx, created);
  await tables.deadlines.add(tx, created, now);
  if (conflicting.length > 0) {
    // Freed first: the lookup must not find the keys of this insert.
    const [, existing] = await Promise.all([
      tables.dedupeKeys.free(tx, unusedKeys),
      findExisting(tables, scope, conflicting),
    ]);
    results.push(...existing);
  }
  return results;
}

/** Results for tasks whose id or key is taken, unless the holder is already gone. */
async function findExisting(
  { definitions, dedupeKeys, instances }: TaskTables,
  { tx }: Scope,
  tasks: readonly OpenTask[],
): Promise<readonly TaskResult[]> {
  // Separate statements: their snapshots include the rows that the insert waited for.
  const [starts, holders] = await Promise.all([
    instances.selectStarts(
      tx,
      tasks.map(({ task }) => task.instanceId),
    ),
    dedupeKeys.holders(
      tx,
      tasks.flatMap(({ task: { dedupeKey }, definitionKey }) =>
        dedupeKey === undefined ? [] : [{ definitionKey, dedupeKey }],
      ),
    ),
  ]);
  await definitions.load(
    tx,
    starts.map(({ definitionKey }) => definitionKey),
  );
  // Keys without an instance exist only in a damaged database.
  const orphans = holders.filter(({ instanceId }) => instanceId === null);
  await dedupeKeys.free(
    tx,
    orphans.map(({ instanceKey }) => instanceKey),
  );
  const startOf = new Map(starts.map((start) => [start.instanceId, start]));
  const holderOf = new Map(holders.map((held) => [keyText(held), held.instanceId]));
  return tasks.flatMap(({ index, task, definitionKey }): readonly TaskResult[] => {
    const start = startOf.get(task.instanceId);
    if (start !== undefined) {
      const existing = { ...start, ...definitions.get(start.definitionKey) };
      return [{ index, result: existingStart(existing, { ...task, kind: 'task' }) }];
    }
    const { dedupeKey = '' } = task;
    const instanceId = holderOf.get(keyText({ definitionKey, dedupeKey })) ?? null;
    if (instanceId === null) return [];
    return [{ index, result: { kind: 'active', instanceId } }];
  });
}

const notInserted: InsertedTask = {
  instanceKey: 0,
  isCreated: false,
  hasKey: false,
  dueAt: Infinity,
};

function refusal({ instanceId, priority, lane }: NewTask): CreateTaskResult | undefined {
  if (lane !== undefined) {
    try {
      checkLane(lane);
    } catch (error) {
      return { kind: 'refused', error: error as Error };
    }
  }
  if (Number.isInteger(priority) && priority >= -100 && priority <= 100) return undefined;
  const error = new ProviderError({
    operation: 'createTasks',
    message: `createTasks: invalid \`priority\` ${JSON.stringify(priority)} of ${JSON.stringify(instanceId)}. Pass an integer from -100 to 100.`,
    retryable: false,
  });
  return { kind: 'refused', error };
}

/** Whether a work item is a task run itself, not its failure handler. */
export function isRun({ instances }: Batch, { instanceKey, operation }: HeldItem): boolean {
  return operation === taskOperation && instances.get(instanceKey)?.isTask === true;
}

/** Applies the end of a work item to its task run. Returns the run's final status if the run ended. */
export function settleRun(
  { scope, instances, changes }: Batch,
  run: InstanceRow,
  { item, outcome }: Settlement,
): TerminalStatus | undefined {
  const { instanceKey } = run;
  if (outcome.kind === 'failed') parseFailure(outcome.failure);
  if (item.operation === onFailOperation) {
    const failure = outcome.kind === 'failed' ? outcome.failure : null;
    const state = outcome.kind === 'completed' ? 'completed' : 'failed';
    changes.tasks.onFailEnds.push({ instanceKey, state, failure });
    return undefined;
  }
  if (isTerminal(run.status)) {
    // The run was terminated before. Only its dedupe key is left to free.
    changes.tasks.freeKey(run);
    return undefined;
  }
  // A flagged item ends as canceled, whatever its outcome.
  const end = toEnd(item.cancelRequested ? { kind: 'canceled', leaked: false } : outcome);
  changes.tasks.end(scope, run, { ...end, startedAt: item.startedAt });
  if (run.isPaused) changes.liftedPauses.push(instanceKey);
  instances.update(instanceKey, { status: end.status });
  return end.status;
}

function toEnd(outcome: WorkOutcome): Omit<RunEnd, 'instanceKey' | 'startedAt'> {
  switch (outcome.kind) {
    case 'completed':
      return { status: 'completed', output: outcome.payload };
    case 'failed':
      return { status: 'failed', failure: outcome.failure, onFail: outcome.onFail };
    case 'skipped':
      return { status: 'skipped' };
    case 'canceled':
      return { status: 'canceled', reason: 'canceled', actor: null };
  }
}
