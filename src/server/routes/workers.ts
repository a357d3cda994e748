import { z } from 'zod';
import type { UnclaimedWorkInfo, WorkerInfo } from '../../client/reading/workers.ts';
import { time } from './fields.ts';
import { route } from './route.ts';

const worker: z.ZodType<WorkerInfo> = z
  .strictObject({
    id: z.string(),
    processId: z.string().exactOptional(),
    name: z.string(),
    status: z.enum(['live', 'stale']),
    host: z.string(),
    pid: z.number(),
    buildId: z.string(),
    orchestrations: z.array(z.strictObject({ name: z.string(), version: z.string() })),
    activities: z.array(z.string()),
    tasks: z.array(z.string()),
    slots: z.strictObject({
      activities: z.number(),
      orchestrations: z.number(),
      inUse: z.number(),
    }),
    leaked: z.number(),
    startedAt: time,
    lastSeenAt: time,
    ageMs: z.number(),
    heartbeatMs: z.number(),
    diedAt: time.exactOptional(),
    definitionsOmitted: z.literal(true).exactOptional(),
  })
  .meta({ id: 'Worker', description: 'A worker of the store.' });

const unclaimed: z.ZodType<UnclaimedWorkInfo> = z.strictObject({
  kind: z.enum(['orchestration', 'activity', 'task']),
  name: z.string(),
  version: z.string().exactOptional(),
  dueForMs: z.number(),
});

export const workerRoutes = {
  listWorkers: route({
    method: 'GET',
    path: '/v1/workers',
    role: 'read',
    summary:
      'Lists the workers of the store, the live ones first, at most 1,000. A worker is stale if it missed three heartbeats.',
    response: z.strictObject({ items: z.array(worker) }),
  }),
  listUnclaimedWork: route({
    method: 'GET',
    path: '/v1/unclaimed-work',
    role: 'read',
    summary:
      'Lists the definitions with work that has been due for 10 s and that no live worker can run, at most 100.',
    response: z.strictObject({ items: z.array(unclaimed) }),
  }),
};
