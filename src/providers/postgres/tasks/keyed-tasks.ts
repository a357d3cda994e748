import type { CreateTaskResult, NewTask } from '../../contract/tasks.ts';
import { movedDelay } from '../../rules/start-keys.ts';
import { taskTimes } from '../../rules/starts.ts';
import type { Scope } from '../driver/scope.ts';
import type { Definitions } from '../tables/definitions.ts';
import type { InstanceDeadlines } from '../tables/instance-deadlines.ts';
import type { InstanceRows } from '../tables/instance-rows.ts';
import type { InstanceTags } from '../tables/instance-tags.ts';
import type { MovedStarts } from '../starts/moved-starts.ts';
import type { StartKey, StartKeys } from '../starts/start-keys.ts';

/** The tables that a creation of task runs with keys reads and writes. */
export interface KeyedTaskTables {
  readonly definitions: Definitions;
  readonly deadlines: InstanceDeadlines;
  readonly instances: InstanceRows;
  readonly instanceTags: InstanceTags;
  readonly movedStarts: MovedStarts;
  readonly startKeys: StartKeys;
}

/** Whether a task may find a run that has ended, or move one that has not started. */
export function isKeyed({ dedupeMs, debounce }: NewTask): boolean {
  return dedupeMs !== undefined || debounce !== undefined;
}

type CreatePlain = (tasks: readonly NewTask[]) => Promise<readonly CreateTaskResult[]>;

interface KeyedTask {
  readonly task: NewTask;
  readonly key: StartKey;
}

/** Creates runs with keys one at a time, in list order: a later one finds the run of an earlier one. */
export async function createKeyedTasks(
  tables: KeyedTaskTables,
  scope: Scope,
  tasks: readonly NewTask[],
  createPlain: CreatePlain,
): Promise<readonly CreateTaskResult[]> {
  const { definitions, startKeys, movedStarts } = tables;
  const keyOf = await definitions.intern(
    scope,
    tasks.map(({ name }) => ({ kind: 'task', name, version: null })),
  );
  const keyed = tasks.map((task): KeyedTask => {
    const { debounce, dedupeKey = '' } = task;
    const definitionKey = keyOf('task', task.name, null);
    return debounce === undefined
      ? { task, key: { definitionKey, kind: 'dedupe', startKey: dedupeKey } }
      : { task, key: { definitionKey, kind: 'debounce', startKey: debounce.key } };
  });
  const keys = keyed.map(({ key }) => key);
  await startKeys.lock(scope.tx, keys);
  // All runs in one statement and in key order, before the first one is moved.
  const debounced = keys.filter(({ kind }) => kind === 'debounce');
  const runs = await startKeys.debounced(scope.tx, debounced);
  await movedStarts.lock(
    scope.tx,
    runs.map(({ instanceKey }) => instanceKey),
  );
  const results: CreateTaskResult[] = [];
  for (const one of keyed) {
    const found = await findRun(tables, scope, one);
    results.push(
      found === undefined
        ? await create(tables, scope, one, createPlain)
        : { kind: 'active', instanceId: found },
    );
  }
  return results;
}

/** Returns the id of the run that a task gets by its key. Moves a debounced one. */
async function findRun(
  tables: KeyedTaskTables,
  scope: Scope,
  { task, key }: KeyedTask,
): Promise<string | undefined> {
  const { tx, now } = scope;
  const { debounce } = task;
  if (debounce !== undefined) return move(tables, scope, { ...task, debounce }, key);
  // A known id comes first: a repeated task finds its own run.
  const [[own], holder] = await Promise.all([
    tables.instances.selectStarts(tx, [task.instanceId]),
    tables.startKeys.windowOf(tx, key, now),
  ]);
  return own === undefined ? holder : undefined;
}

async function move(
  { deadlines, instanceTags, movedStarts, startKeys }: KeyedTaskTables,
  { tx, now, effects }: Scope,
  task: NewTask & Required<Pick<NewTask, 'debounce'>>,
  key: StartKey,
): Promise<string | undefined> {
  const { requestKey } = task.debounce;
  const [run] = await startKeys.debounced(tx, [key]);
  if (run === undefined || run.requestKey === requestKey) return run?.instanceId;
  const { instanceKey, instanceId, createdAt } = run;
  const delayMs = movedDelay(task, { createdAt, now });
  const times = taskTimes({ ...task, delayMs }, now);
  const nextAt = now + delayMs;
  // The run of an earlier task of this batch was created by this transaction; all others are locked.
  if (!(await movedStarts.moveTask(tx, instanceKey, task, { ...times, nextAt }))) return undefined;
  await Promise.all([
    deadlines.replace(tx, { instanceKey, times: { ...task, delayMs } }, now),
    instanceTags.replace(tx, { instanceKey, tags: task.tags }),
    startKeys.moved(tx, { ...key, requestKey }, nextAt),
  ]);
  effects.due('work', Math.min(nextAt, times.expiresAt ?? Infinity));
  return instanceId;
}

async function create(
  { startKeys }: KeyedTaskTables,
  { tx, now }: Scope,
  { task, key }: KeyedTask,
  createPlain: CreatePlain,
): Promise<CreateTaskResult> {
  const [result] = await createPlain([task]);
  if (result === undefined) throw new Error('The task has no result.');
  if (result.kind !== 'created') return result;
  const { definitionKey, startKey } = key;
  const run = { definitionKey, startKey, instanceKey: result.instanceKey };
  const { debounce, dedupeMs, delayMs = 0 } = task;
  if (debounce !== undefined) {
    const { requestKey } = debounce;
    await startKeys.addDebounced(tx, { ...run, requestKey }, { startsAt: now + delayMs, now });
  } else if (dedupeMs !== undefined) {
    await startKeys.addWindow(tx, run, { dedupeMs, now });
  }
  return result;
}
