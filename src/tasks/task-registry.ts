import { PerdureError } from '../model/failures/errors.ts';
import type { TaskDefinition } from './task.ts';

/** The tasks that a worker can run, by name. */
export class TaskRegistry {
  readonly #tasks = new Map<string, TaskDefinition>();

  constructor(tasks: readonly TaskDefinition[]) {
    for (const task of tasks) this.#add(task);
  }

  find(name: string): TaskDefinition | undefined {
    return this.#tasks.get(name);
  }

  all(): readonly TaskDefinition[] {
    return [...this.#tasks.values()];
  }

  #add(task: TaskDefinition): void {
    const given = task as Partial<TaskDefinition> | null | undefined;
    if (given?.kind !== 'task' || typeof given.handler !== 'function') {
      throw new PerdureError(
        'INVALID_OPTION',
        'Something registered as a task is not one. Define it with task(name, handler).',
      );
    }
    if (this.#tasks.has(task.name)) {
      throw new PerdureError(
        'ALREADY_REGISTERED',
        `Task '${task.name}' is registered twice. Give one of them another name.`,
      );
    }
    this.#tasks.set(task.name, task);
  }
}
