import type { z } from 'zod';
import type { TaskRef } from '../../model/definition.ts';
import { withAttempt } from '../../model/values/start-attempt.ts';
import type { Handlers } from '../server-context.ts';
import type { taskRequest, taskRoutes } from '../routes/tasks.ts';

export const taskHandlers: Handlers<typeof taskRoutes> = {
  async runTask({ body }, { client }) {
    const { task, input, options } = toRequest(body);
    const { id, created } = await client.runTask(task, input, options);
    return { id, created };
  },
  async runTasks({ body }, { client }) {
    const { requests, repeat } = body;
    const handles = await client.runTasks(
      requests.map((request) => toRequest({ ...request, repeat: request.repeat ?? repeat })),
    );
    return { runs: handles.map(({ id, created }) => ({ id, created })) };
  },
};

function toRequest({ task, input, onFail, ...options }: z.output<typeof taskRequest>) {
  return { task: taskWith(task, onFail), input, options: withAttempt(options) };
}

/** Returns a task by name. `onFail` comes from the caller, because the server has no definition of the task. */
export function taskWith(name: string, onFail: boolean | undefined): TaskRef {
  return { kind: 'task', name, ...(onFail !== undefined && { runDefaults: { onFail } }) };
}
