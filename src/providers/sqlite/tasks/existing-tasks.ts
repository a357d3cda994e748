import type { CreateTaskResult, NewTask } from '../../contract/tasks.ts';
import { planExistingTask, replacedReason } from '../../rules/starts.ts';
import { replacedStarts } from '../../shared/deleted-starts.ts';
import type { Scope } from '../batches/group-commit.ts';
import type { DeletedStarts } from '../starts/deleted-starts.ts';
import type { Definitions } from '../tables/definitions.ts';
import type { FullRow, InstanceRows } from '../tables/instance-rows.ts';
import type { ReplacedRows } from '../tables/replaced-rows.ts';
import type { ReplacedTasks } from './replaced-tasks.ts';
import type { TaskRuns } from './task-runs.ts';

/** The parts of the store that find or replace the run of a task whose id is taken. */
export interface ExistingTaskParts {
  readonly definitions: Definitions;
  readonly deletedStarts: DeletedStarts;
  readonly instances: InstanceRows;
  readonly replacedRows: ReplacedRows;
  readonly replacedTasks: ReplacedTasks;
  readonly stops: {
    terminate(
      scope: Scope,
      row: FullRow,
      request: {
        readonly reason: string;
        readonly actor: string | null;
        readonly cleanupMs: number;
        readonly tree: boolean;
      },
    ): boolean;
  };
  readonly taskRuns: TaskRuns;
}

/** Returns the result of a task with `onConflict` whose id is taken: the existing run, or one that replaces it. */
export function useExistingTask(
  store: ExistingTaskParts,
  scope: Scope,
  task: NewTask,
): CreateTaskResult {
  const row = store.instances.find(task.instanceId);
  const start = store.instances.findStart(task.instanceId);
  if (row === undefined || start === undefined) {
    throw new Error('An existing instance cannot be read.');
  }
  const { kind, name } = store.definitions.get(start.definitionKey);
  const existing = { kind, name, inputHash: start.inputHash, incarnation: row.incarnation };
  const plan = planExistingTask(existing, task);
  if (plan !== 'replace')
    return plan === 'exists' ? { kind: 'exists' } : { kind: 'conflict', name };
  const { instanceKey } = row;
  const isHeldBack =
    store.replacedRows.hasJob(instanceKey) || store.replacedTasks.hasOnFail(instanceKey);
  if (isHeldBack) return { kind: 'conflict', name };
  const termination = { reason: replacedReason, actor: null, cleanupMs: 0, tree: true };
  store.stops.terminate(scope, row, termination);
  store.deletedStarts.add(replacedStarts(row, scope.now), scope.now);
  store.taskRuns.replace(scope, row, task, (times) =>
    store.replacedTasks.reopen(instanceKey, task, times),
  );
  return { kind: 'created', instanceKey };
}
