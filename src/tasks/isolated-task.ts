import { locateHandler, type IsolatedHandler } from '../orchestration/isolated-activity.ts';
import { task, type TaskDefinition, type TaskOptions } from './task.ts';

/**
 * Defines a task that runs in a worker thread of its own. A handler that ignores its signal past the grace period is
 * really stopped: its thread is terminated. Conditions and handlers for failures run in the worker itself.
 */
export function isolatedTask<Input = void, Output = unknown>(
  name: string,
  handler: IsolatedHandler,
  options: TaskOptions<Input, NoInfer<Output>> = {},
): TaskDefinition<Input, Output> {
  const isolated = locateHandler(handler);
  const runsElsewhere = (): never => {
    throw new Error(`Task '${name}' runs in a thread of its own.`);
  };
  return Object.freeze({ ...task<Input, Output>(name, runsElsewhere, options), isolated });
}
