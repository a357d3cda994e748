import type { CreateTaskResult, NewTask, TaskStore } from '../../contract/tasks.ts';
import type { Scope } from '../batches/group-commit.ts';
import type { Store } from '../store.ts';

/** Creation of task runs; the rest of their life is that of instances and work items. */
export function createTaskStore(store: Store): TaskStore {
  return {
    createTasks: (tasks) =>
      store.write('createTasks', tasks, (scope, one) => createTask(store, scope, one)),
  };
}

/** Creates one task run, such that a bad one is undone alone. */
export function createTask(store: Store, scope: Scope, task: NewTask): CreateTaskResult {
  const result = scope.isolate('createTasks', () => store.taskRuns.create(scope, task));
  return result.ok ? result.value : { kind: 'refused', error: result.error };
}
