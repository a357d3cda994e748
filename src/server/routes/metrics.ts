import { z } from 'zod';
import type {
  QueueDepth,
  QueueDepths,
  SystemMetrics,
} from '../../providers/contract/management.ts';
import { attentionOf } from './attention-schema.ts';
import type { DefinitionQueueInfo, QueueTotals } from '../../client/reading/queues.ts';
import { id, time } from './fields.ts';
import { route } from './route.ts';
import { instancesMessage } from './views.ts';

// The limit of query parameters is 100 by default.
const manyIds = z.preprocess(
  (value) => (typeof value === 'string' ? [value] : value),
  z.array(id).min(1).max(200),
);

const depthFields = {
  ready: z.number(),
  delayed: z.number(),
  claimed: z.number(),
  paused: z.number(),
  oldestReadyAt: time.nullable(),
};

const depth: z.ZodType<QueueDepth> = z.strictObject(depthFields);

const definitionQueue: z.ZodType<DefinitionQueueInfo> = z
  .strictObject({
    kind: z.enum(['orchestration', 'activity', 'task']),
    name: z.string(),
    ...depthFields,
    capped: z.literal(true).exactOptional(),
    workers: z.number(),
    pause: z
      .strictObject({
        at: time,
        reason: z.string().exactOptional(),
        actor: z.string().exactOptional(),
      })
      .exactOptional(),
  })
  .meta({ id: 'DefinitionQueue', description: 'The queue of one definition.' });

const attention = attentionOf(definitionQueue);

const queueDepths: z.ZodType<QueueDepths> = z.strictObject({
  orchestrations: depth,
  activities: depth,
  tasks: depth,
  messages: z.number(),
});

const queueTotal = z.strictObject({
  ...depthFields,
  capped: z.literal(true).exactOptional().meta({
    description:
      'The numbers are lower bounds: a definition reached 10,000, or more than 1,000 have work.',
  }),
});

const queueTotals: z.ZodType<QueueTotals> = z.strictObject({
  orchestrations: queueTotal,
  activities: queueTotal,
  tasks: queueTotal,
});

const count = z.number();

const systemMetrics: z.ZodType<SystemMetrics> = z.strictObject({
  instances: z.strictObject({
    pending: count,
    running: count,
    canceling: count,
    completed: count,
    failed: count,
    canceled: count,
    terminated: count,
    skipped: count,
    expired: count,
  }),
  pausedInstances: count,
  pausedDefinitions: count,
  finishedExecutions: count,
  storageBytes: count,
  reclaimableBytes: count,
  pendingReclaims: count,
});

export const metricRoutes = {
  health: route({
    method: 'GET',
    path: '/v1/health',
    role: 'public',
    summary: 'Checks that the server and its store are available.',
    response: z.strictObject({ status: z.literal('ok') }),
  }),
  live: route({
    method: 'GET',
    path: '/v1/health/live',
    role: 'public',
    summary: 'Checks that the process responds. Reads nothing. For liveness probes.',
    response: z.strictObject({ status: z.literal('ok') }),
  }),
  ready: route({
    method: 'GET',
    path: '/v1/health/ready',
    role: 'public',
    summary: 'Checks that the server accepts requests and reaches its store. For readiness probes.',
    response: z.strictObject({ status: z.literal('ok') }),
  }),
  queueDepths: route({
    method: 'GET',
    path: '/v1/queues',
    role: 'read',
    summary: 'Returns the depth of the queues and the age of their oldest entries.',
    response: queueDepths,
  }),
  getAttention: route({
    method: 'GET',
    path: '/v1/attention',
    role: 'read',
    summary:
      'Returns what needs attention: blocked and failed instances, work without a worker, leaked handlers, lost workers, late schedules, old queues and paused definitions.',
    response: attention,
  }),
  listQueues: route({
    method: 'GET',
    path: '/v1/queues/definitions',
    role: 'read',
    summary:
      'Lists the queues of definitions, the longest waiting first, at most 1,000. Numbers are counted up to 10,000.',
    response: z.strictObject({ items: z.array(definitionQueue) }),
  }),
  systemMetrics: route({
    method: 'GET',
    path: '/v1/system',
    role: 'read',
    summary: 'Returns the number of instances by status and the size of the store.',
    response: systemMetrics,
  }),
  prometheus: route({
    method: 'GET',
    path: '/v1/metrics',
    role: 'read',
    summary:
      'Returns the metrics of the store, the server and the workers of its process in the format of Prometheus.',
    as: 'text',
  }),
  openApi: route({
    method: 'GET',
    path: '/v1/openapi.json',
    role: 'read',
    summary: 'Returns this API as an OpenAPI 3.1 document.',
    response: z.record(z.string(), z.unknown()),
  }),
  watchChanges: route({
    method: 'GET',
    path: '/v1/changes',
    role: 'read',
    summary:
      'Streams the ids of instances that ended or set their custom status, and the metrics of the store and the queues when they change. With `ids`, streams the states of these instances instead; POST accepts more ids.',
    query: z.strictObject({ ids: manyIds.optional() }),
    response: z.union([
      instancesMessage,
      z.strictObject({
        kind: z.literal('ended'),
        ids: z.array(z.string()),
        missed: z
          .literal(true)
          .exactOptional()
          .meta({ description: 'Some changes were dropped: list the instances again.' }),
      }),
      z.strictObject({ kind: z.literal('changed'), ids: z.array(z.string()) }),
      z.strictObject({ kind: z.literal('figures'), queues: queueTotals, system: systemMetrics }),
    ]),
    as: 'events',
  }),
};
