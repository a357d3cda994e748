import { z } from 'zod';
import {
  byId,
  cursor,
  done,
  flag,
  id,
  json,
  limit,
  name,
  queryMoment,
  several,
  status,
  timeoutMs,
  version,
  whole,
  actor,
  duration,
  reason,
} from './fields.ts';
import {
  executionPage,
  exportedHistory,
  historyPage,
  instanceInfo,
  instancePage,
  instanceTree,
  measuredInstance,
  pendingWork,
  wireError,
  stopResult,
} from './response-schemas.ts';
import { longestPollMs, route } from './route.ts';

const place = whole(0, Number.MAX_SAFE_INTEGER);

/** Starting instances, looking at them, talking to them. */
export const instanceRoutes = {
  startInstance: route({
    method: 'POST',
    path: '/v1/instances',
    role: 'operate',
    summary: 'Starts an instance; the same start with the same id finds it.',
    body: z.strictObject({
      name,
      input: json.optional(),
      id: id.optional(),
      version: version.optional(),
    }),
    response: z.strictObject({ id: z.string() }),
  }),
  listInstances: route({
    method: 'GET',
    path: '/v1/instances',
    role: 'read',
    summary:
      'Lists instances, the newest first, one page at a time. Outputs and custom statuses come with `payloads=true` alone; a page ends at 8 MiB.',
    query: z.strictObject({
      status: several(status).optional(),
      kind: z.enum(['orchestration', 'task', 'flow']).optional(),
      name: name.optional(),
      idPrefix: id.optional(),
      parentId: id.optional(),
      createdFrom: queryMoment.optional(),
      createdBefore: queryMoment.optional(),
      blocked: flag.optional(),
      payloads: flag.optional(),
      limit: limit.optional(),
      cursor: cursor.optional(),
    }),
    response: instancePage,
  }),
  getInstance: route({
    method: 'GET',
    path: '/v1/instances/{id}',
    role: 'read',
    summary: 'Reads what is known of an instance.',
    params: byId,
    response: instanceInfo,
  }),
  measureInstance: route({
    method: 'GET',
    path: '/v1/instances/{id}/size',
    role: 'read',
    summary: 'Reads an instance with what it holds in the store.',
    params: byId,
    response: measuredInstance,
  }),
  waitForInstance: route({
    method: 'GET',
    path: '/v1/instances/{id}/wait',
    role: 'read',
    summary: 'Waits until an instance is over, or the time is up: `over` says which.',
    params: byId,
    query: z.strictObject({ timeoutMs: timeoutMs.optional() }),
    response: z.strictObject({ over: z.boolean(), instance: instanceInfo }),
    waits: true,
  }),
  waitForInstances: route({
    method: 'POST',
    path: '/v1/bulk/wait',
    role: 'read',
    summary:
      'Waits until at least one of some instances is over or cannot be waited for, or the time is up; answers those.',
    body: z.strictObject({
      ids: z.array(id).min(1).max(1_000),
      timeoutMs: z.int().min(0).max(longestPollMs).optional(),
    }),
    response: z.strictObject({
      results: z.array(
        z.union([
          z.strictObject({ id: z.string(), instance: instanceInfo }),
          z.strictObject({ id: z.string(), error: wireError }),
        ]),
      ),
    }),
    waits: true,
  }),
  raiseEvent: route({
    method: 'POST',
    path: '/v1/instances/{id}/events',
    role: 'operate',
    summary: 'Sends an external event to an instance, where it waits until the code asks for it.',
    params: byId,
    body: z.strictObject({ name, payload: json.optional() }),
    response: done,
  }),
  getInstanceTree: route({
    method: 'GET',
    path: '/v1/instances/{id}/tree',
    role: 'read',
    summary: 'Reads which instances an instance has below it.',
    params: byId,
    response: instanceTree,
  }),
  getHistory: route({
    method: 'GET',
    path: '/v1/instances/{id}/history',
    role: 'read',
    summary:
      'Reads a page of the history of an execution, by default the current one. A page ends at 8 MiB.',
    params: byId,
    query: z.strictObject({
      executionId: whole(1, Number.MAX_SAFE_INTEGER).optional(),
      after: place.optional(),
      limit: limit.optional(),
    }),
    response: historyPage,
  }),
  exportHistory: route({
    method: 'GET',
    path: '/v1/instances/{id}/export',
    role: 'read',
    summary: 'Exports a whole execution, to replay code against.',
    params: byId,
    query: z.strictObject({ executionId: whole(1, Number.MAX_SAFE_INTEGER).optional() }),
    response: exportedHistory,
    exports: true,
  }),
  listExecutions: route({
    method: 'GET',
    path: '/v1/instances/{id}/executions',
    role: 'read',
    summary: 'Lists the executions of an instance, the oldest first.',
    params: byId,
    query: z.strictObject({ after: place.optional(), limit: limit.optional() }),
    response: executionPage,
  }),
  listRunning: route({
    method: 'GET',
    path: '/v1/instances/{id}/running',
    role: 'read',
    summary: 'Lists the work of an instance that runs, waits for its next attempt or is queued.',
    params: byId,
    response: z.strictObject({ items: z.array(pendingWork) }),
  }),
  watchInstance: route({
    method: 'GET',
    path: '/v1/instances/{id}/changes',
    role: 'read',
    summary: 'Sends what is known of an instance whenever it changes, until it is over.',
    params: byId,
    response: instanceInfo,
    as: 'events',
  }),
};

/** Stopping instances. */
export const stoppingRoutes = {
  cancelInstance: route({
    method: 'POST',
    path: '/v1/instances/{id}/cancel',
    role: 'operate',
    summary: 'Asks an instance to stop, durably and at once.',
    params: byId,
    body: z.strictObject({
      reason: reason.optional(),
      actor: actor.optional(),
      cleanupTimeout: duration.optional(),
    }),
    response: stopResult,
    urgent: true,
  }),
  terminateInstance: route({
    method: 'POST',
    path: '/v1/instances/{id}/terminate',
    role: 'operate',
    summary: 'Ends an instance at once, without running its code.',
    params: byId,
    body: z.strictObject({
      reason: reason.optional(),
      actor: actor.optional(),
      tree: z.boolean().optional(),
    }),
    response: stopResult,
    urgent: true,
  }),
};
