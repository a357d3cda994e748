import type { Registry } from '../../orchestration/registry.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import type { TaskRegistry } from '../../tasks/task-registry.ts';
import type { TaskGate } from '../tasks/task-gate.ts';
import { onFailHandler, taskHandler } from '../tasks/task-handlers.ts';
import { activityHandler, type WorkHandler } from './work-handler.ts';

/** The handlers of a worker, one for each kind and name of a work item. */
export class WorkHandlers {
  readonly #byKind: Readonly<Record<WorkItem['kind'], Map<string, WorkHandler>>>;

  constructor(registry: Registry, tasks: TaskRegistry, provider: Provider) {
    const definitions = tasks.all();
    this.#byKind = {
      activity: new Map(registry.activities().map((one) => [one.name, activityHandler(one)])),
      task: new Map(definitions.map((one) => [one.name, taskHandler(one)])),
      onFail: new Map(definitions.map((one) => [one.name, onFailHandler(one, provider)])),
    };
  }

  find({ kind, name }: WorkItem): WorkHandler | undefined {
    return this.#byKind[kind].get(name);
  }

  activityNames(): readonly string[] {
    return [...this.#byKind.activity.keys()];
  }

  /** The tasks that nothing but the slots of the worker bounds. */
  unboundedTasks(): readonly string[] {
    return [...this.#byKind.task]
      .filter(([, { gate }]) => gate === undefined)
      .map(([name]) => name);
  }

  gates(): readonly TaskGate[] {
    return [...this.#byKind.task.values()].flatMap(({ gate }) => gate ?? []);
  }
}
