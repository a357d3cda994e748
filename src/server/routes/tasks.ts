import { z } from 'zod';
import {
  admission,
  attempt,
  duration,
  id,
  json,
  onConflict,
  startSettings,
  time,
  name,
} from './fields.ts';
import { route } from './route.ts';

/** The options of a task run, including those that its definition would add. */
const taskRunFields = {
  ...startSettings,
  expiresIn: duration.optional(),
  expiresAt: time.optional(),
  ...admission,
  onFail: z
    .boolean()
    .optional()
    .meta({ description: 'Whether to run the `onFail` handler of the task when it has failed.' }),
};

/** A task run to start. */
export const taskRequest = z.strictObject({
  task: name,
  input: json.optional(),
  id: id.optional(),
  onConflict,
  replaceKey: name.optional(),
  ...attempt,
  ...taskRunFields,
});

const taskRun = z.strictObject({ id: z.string(), created: z.boolean() });

export const taskRoutes = {
  runTask: route({
    method: 'POST',
    path: '/v1/tasks',
    role: 'operate',
    summary: 'Starts a task run. `created` is false if a run with its `id` or key exists.',
    body: taskRequest,
    response: taskRun,
  }),
  runTasks: route({
    method: 'POST',
    path: '/v1/tasks/batch',
    role: 'operate',
    summary: 'Starts up to 1,000 task runs. All are validated before the first one is created.',
    body: z.strictObject({ requests: z.array(taskRequest).max(1_000), repeat: attempt.repeat }),
    response: z.strictObject({ runs: z.array(taskRun) }),
    bulk: true,
  }),
};
