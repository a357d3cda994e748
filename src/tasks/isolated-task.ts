import { locateHandler, type IsolatedHandler } from '../orchestration/activity.ts';
import { task, type TaskDefinition, type TaskOptions } from './task.ts';

/**
 * Defines a task that runs in a worker thread of its own. A handler that ignores its signal past the grace period is
 * really stopped: its thread is terminated. Conditions and handlers for failures run in the worker itself.
 */
export function isolatedTask<Parsed = void, Output = unknown, Input = Parsed>(
  name: string,
  handler: IsolatedHandler,
  options: TaskOptions<Parsed, NoInfer<Output>, Input> = {},
): TaskDefinition<Input, Output, Parsed> {
  const isolated = locateHandler(handler);
  const runsElsewhere = (): never => {
    throw new Error(`Task '${name}' runs in a thread of its own.`);
  };
  const definition = task<Parsed, Output, Input>(name, runsElsewhere, options);
  return Object.freeze({ ...definition, isolated });
}
