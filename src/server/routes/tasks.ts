import { z } from 'zod';
import { duration, headers, id, json, moment, name } from './fields.ts';
import { route } from './route.ts';

/** How a task is run: the options of a run, and what its definition would have added. */
const taskRunFields = {
  priority: z.number().optional(),
  delay: duration.optional(),
  runAt: moment.optional(),
  expiresIn: duration.optional(),
  expiresAt: moment.optional(),
  dedupeKey: id.optional(),
  headers: headers.optional(),
  onFail: z
    .boolean()
    .optional()
    .meta({ description: 'Whether the task has a handler for failures that is to run.' }),
};

/** A task run that is asked for. */
export const taskRequest = z.strictObject({
  task: name,
  input: json.optional(),
  id: id.optional(),
  ...taskRunFields,
});

const taskRun = z.strictObject({ id: z.string(), created: z.boolean() });

/** Running tasks. */
export const taskRoutes = {
  runTask: route({
    method: 'POST',
    path: '/v1/tasks',
    role: 'operate',
    summary: 'Runs a task; `created` is false where a run with its id or key was there.',
    body: taskRequest,
    response: taskRun,
  }),
  runTasks: route({
    method: 'POST',
    path: '/v1/tasks/batch',
    role: 'operate',
    summary: 'Runs up to 1,000 tasks; all are checked before the first run is created.',
    body: z.strictObject({ requests: z.array(taskRequest).max(1_000) }),
    response: z.strictObject({ runs: z.array(taskRun) }),
    bulk: true,
  }),
};
