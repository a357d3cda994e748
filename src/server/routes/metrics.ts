import { z } from 'zod';
import type {
  QueueDepth,
  QueueDepths,
  SystemMetrics,
} from '../../providers/contract/management.ts';
import { moment } from './fields.ts';
import { route } from './route.ts';

const depth: z.ZodType<QueueDepth> = z.strictObject({
  ready: z.number(),
  delayed: z.number(),
  claimed: z.number(),
  oldestReadyAt: moment.nullable(),
});

const queueDepths: z.ZodType<QueueDepths> = z.strictObject({
  orchestrations: depth,
  activities: depth,
  tasks: depth,
  messages: z.number(),
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
  finishedExecutions: count,
  storageBytes: count,
  reclaimableBytes: count,
  pendingReclaims: count,
});

/** The whole store in figures, and the server itself. */
export const metricRoutes = {
  health: route({
    method: 'GET',
    path: '/v1/health',
    role: 'public',
    summary: 'Says whether the server and its store answer.',
    response: z.strictObject({ status: z.literal('ok') }),
  }),
  queueDepths: route({
    method: 'GET',
    path: '/v1/queues',
    role: 'read',
    summary: 'Counts what waits in the queues, and since when.',
    response: queueDepths,
  }),
  systemMetrics: route({
    method: 'GET',
    path: '/v1/system',
    role: 'read',
    summary: 'Counts what is in the store.',
    response: systemMetrics,
  }),
  prometheus: route({
    method: 'GET',
    path: '/v1/metrics',
    role: 'read',
    summary: 'The figures of store, queues and server in the text format of Prometheus.',
    as: 'text',
  }),
  openApi: route({
    method: 'GET',
    path: '/v1/openapi.json',
    role: 'read',
    summary: 'This interface as an OpenAPI 3.1 document.',
    response: z.record(z.string(), z.unknown()),
  }),
  watchChanges: route({
    method: 'GET',
    path: '/v1/changes',
    role: 'read',
    summary:
      'Sends ids of instances that ended or set their custom status, and the figures of store and queues whenever they change.',
    response: z.union([
      z.strictObject({
        kind: z.literal('ended'),
        ids: z.array(z.string()),
        missed: z
          .literal(true)
          .exactOptional()
          .meta({ description: 'Some ends or changes were lost: read the list again.' }),
      }),
      z.strictObject({ kind: z.literal('changed'), ids: z.array(z.string()) }),
      z.strictObject({ kind: z.literal('figures'), queues: queueDepths, system: systemMetrics }),
    ]),
    as: 'events',
  }),
};
