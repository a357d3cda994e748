import { z } from 'zod';
import {
  attempt,
  byId,
  cursor,
  done,
  queryBoolean,
  id,
  json,
  limit,
  name,
  queryTime,
  oneOrMore,
  eventBody,
  startIdentity,
  startSettings,
  status,
  timeoutMs,
  version,
  integer,
  actor,
  duration,
  reason,
} from './fields.ts';
import {
  executionPage,
  definitionList,
  exportedHistory,
  historyPage,
  instanceCount,
  instanceInfo,
  instancePage,
  instanceTree,
  measuredInstance,
  pendingWork,
  wireError,
  retryResponse,
  stopResult,
} from './response-schemas.ts';
import { why } from './why-schema.ts';
import { longestPollMs, route } from './route.ts';
import { payloadFields } from './views.ts';
import type { HistoryEvent } from '../../model/event.ts';

/** The conditions of lists and counts. */
const filterFields = {
  status: oneOrMore(status).optional(),
  kind: z.enum(['orchestration', 'task', 'flow']).optional(),
  name: oneOrMore(name).optional(),
  version: version.optional(),
  idPrefix: id.optional(),
  parentId: id.optional(),
  rootsOnly: queryBoolean.optional(),
  createdFrom: queryTime.optional(),
  createdBefore: queryTime.optional(),
  endedFrom: queryTime.optional(),
  endedBefore: queryTime.optional(),
  failureCode: z.string().min(1).max(1_000).optional(),
  failureText: z.string().min(1).max(1_000).optional(),
  blocked: queryBoolean.optional(),
  leaked: queryBoolean.optional(),
  paused: queryBoolean.optional(),
  unregistered: queryBoolean.optional().meta({
    description: 'Whether work waits for a definition that no live worker has registered.',
  }),
  tag: oneOrMore(
    z
      .string()
      .max(400)
      .regex(/^[^=]+=./s),
  )
    .optional()
    .meta({ description: 'A tag as `name=value`. Repeat it for several tags.' }),
};

// The handler checks the exact kinds.
const eventKind = z.string().max(50) as unknown as z.ZodType<HistoryEvent['kind']>;
const position = integer(0, Number.MAX_SAFE_INTEGER);

export const instanceRoutes = {
  startInstance: route({
    method: 'POST',
    path: '/v1/instances',
    role: 'operate',
    summary:
      'Starts an instance. A repeat with the same `id` returns the existing instance, and one with the same `dedupeKey` the live instance. With `debounce`, moves the instance with its key that has not started. With an `event`, only the event is raised if the instance is live.',
    body: z.strictObject({
      name,
      input: json.optional(),
      id: id.optional(),
      version: version.optional(),
      ...startSettings,
      ...startIdentity,
    }),
    response: z.strictObject({ id: z.string(), created: z.boolean() }),
  }),
  listInstances: route({
    method: 'GET',
    path: '/v1/instances',
    role: 'read',
    summary:
      'Lists instances, the newest first. `orderBy=ended` lists those that have ended, the last end first. `payloads=true` adds outputs and custom statuses. A page ends at 8 MiB.',
    query: z.strictObject({
      ...filterFields,
      orderBy: z.enum(['created', 'ended']).optional(),
      payloads: queryBoolean.optional(),
      limit: limit.optional(),
      cursor: cursor.optional(),
    }),
    response: instancePage,
  }),
  countInstances: route({
    method: 'GET',
    path: '/v1/counts/instances',
    role: 'read',
    summary: 'Counts instances up to `cap`. If `capped` is set, the count is a lower bound.',
    query: z.strictObject({ ...filterFields, cap: integer(1, 100_000).optional() }),
    response: instanceCount,
  }),
  listDefinitions: route({
    method: 'GET',
    path: '/v1/definitions',
    role: 'read',
    summary:
      'Lists the orchestrations, tasks and flows that have instances, by name, with counts by status.',
    response: definitionList,
  }),
  getInstance: route({
    method: 'GET',
    path: '/v1/instances/{id}',
    role: 'read',
    summary: 'Returns an instance.',
    params: byId,
    response: instanceInfo,
  }),
  measureInstance: route({
    method: 'GET',
    path: '/v1/instances/{id}/size',
    role: 'read',
    summary: 'Returns an instance with the number of its rows in the store.',
    params: byId,
    response: measuredInstance,
  }),
  waitForInstance: route({
    method: 'GET',
    path: '/v1/instances/{id}/wait',
    role: 'read',
    summary: 'Waits until an instance has ended (`over: true`) or `timeoutMs` has passed.',
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
      'Waits until at least one of several instances has ended or is unknown, or `timeoutMs` has passed. Returns those instances.',
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
    summary:
      'Sends an external event to an instance, buffered until the code waits for it. A repeated `key` is one event.',
    params: byId,
    body: eventBody,
    response: done,
  }),
  getInstanceTree: route({
    method: 'GET',
    path: '/v1/instances/{id}/tree',
    role: 'read',
    summary: 'Returns the ids of an instance and all its descendants, up to 8 MiB.',
    params: byId,
    response: instanceTree,
  }),
  getHistory: route({
    method: 'GET',
    path: '/v1/instances/{id}/history',
    role: 'read',
    summary:
      'Returns a page of the history of an execution, from either end. A page ends at 8 MiB. A page with `kinds` or `operation` examines at most 5,000 events, so it may be empty before the last one.',
    params: byId,
    query: z.strictObject({
      executionId: integer(1, Number.MAX_SAFE_INTEGER).optional(),
      after: position.optional(),
      before: integer(1, Number.MAX_SAFE_INTEGER).optional(),
      limit: limit.optional(),
      order: z.enum(['asc', 'desc']).optional(),
      kinds: oneOrMore(eventKind).optional(),
      operation: integer(1, Number.MAX_SAFE_INTEGER).optional(),
      ...payloadFields,
    }),
    response: historyPage,
  }),
  exportHistory: route({
    method: 'GET',
    path: '/v1/instances/{id}/export',
    role: 'read',
    summary: 'Exports the history of an execution, for replay tests.',
    params: byId,
    query: z.strictObject({ executionId: integer(1, Number.MAX_SAFE_INTEGER).optional() }),
    response: exportedHistory,
    exports: true,
  }),
  listExecutions: route({
    method: 'GET',
    path: '/v1/instances/{id}/executions',
    role: 'read',
    summary: 'Lists the executions of an instance, the oldest first.',
    params: byId,
    query: z.strictObject({ after: position.optional(), limit: limit.optional() }),
    response: executionPage,
  }),
  listRunning: route({
    method: 'GET',
    path: '/v1/instances/{id}/running',
    role: 'read',
    summary: 'Lists the activities and task runs of an instance that have no outcome yet.',
    params: byId,
    response: z.strictObject({ items: z.array(pendingWork) }),
  }),
  explainInstance: route({
    method: 'GET',
    path: '/v1/instances/{id}/why',
    role: 'read',
    summary: 'Explains what an instance waits for, why it is blocked, or how it ended.',
    params: byId,
    response: why,
  }),
  explainInstances: route({
    method: 'POST',
    path: '/v1/bulk/why',
    role: 'read',
    summary:
      'Explains up to 200 instances in one short sentence each. Returns their rows as in a list, the worker and the time of the last progress. Unknown ids are left out. A result may be 500 ms old, unless a stream of this server has reported a change since.',
    body: z.strictObject({ ids: z.array(id).min(1).max(200) }),
    response: z.strictObject({
      items: z.array(
        z.strictObject({
          id: z.string(),
          instance: instanceInfo,
          text: z.string(),
          retrying: z.literal(true).exactOptional(),
          worker: z.string().exactOptional(),
          lastActiveAt: z.number().exactOptional(),
        }),
      ),
    }),
  }),
  watchInstance: route({
    method: 'GET',
    path: '/v1/instances/{id}/changes',
    role: 'read',
    summary: 'Streams an instance whenever it changes, until it has ended.',
    params: byId,
    response: instanceInfo,
    as: 'events',
  }),
  cancelInstance: route({
    method: 'POST',
    path: '/v1/instances/{id}/cancel',
    role: 'operate',
    summary: 'Requests the cancellation of an instance. The request is durable.',
    params: byId,
    body: z.strictObject({
      reason: reason.optional(),
      actor: actor.optional(),
      cleanupTimeout: duration.optional(),
      key: name.optional(),
    }),
    response: stopResult,
    urgent: true,
  }),
  terminateInstance: route({
    method: 'POST',
    path: '/v1/instances/{id}/terminate',
    role: 'operate',
    summary:
      'Terminates an instance immediately, without running its code. `tree: true` terminates its descendants too; otherwise they are canceled.',
    params: byId,
    body: z.strictObject({
      reason: reason.optional(),
      actor: actor.optional(),
      tree: z.boolean().optional(),
      key: name.optional(),
    }),
    response: stopResult,
    urgent: true,
  }),
  retryInstance: route({
    method: 'POST',
    path: '/v1/instances/{id}/retry',
    role: 'operate',
    summary:
      'Runs a failed, canceled, terminated or expired instance again, as its next execution under the same id.',
    params: byId,
    body: z.strictObject({
      from: z.enum(['failure', 'start']),
      input: z.unknown().optional(),
      reason: reason.optional(),
      actor: actor.optional(),
    }),
    response: retryResponse,
  }),
  forkInstance: route({
    method: 'POST',
    path: '/v1/instances/{id}/fork',
    role: 'operate',
    summary:
      'Creates an instance with a copy of the first events of another one. The original does not change. Repeatable with an id.',
    params: byId,
    body: z.strictObject({
      from: z.union([z.enum(['failure', 'start']), z.number().int().min(1)]),
      id: z.string().optional(),
      executionId: z.number().int().min(1).optional(),
      input: z.unknown().optional(),
      reason: reason.optional(),
      actor: actor.optional(),
      ...attempt,
    }),
    response: z.strictObject({ id: z.string() }),
  }),
};
