import { z } from 'zod';
import type { Timeline } from '../../client/reading/timeline.ts';
import type { TreePage } from '../../client/reading/instance-tree-page.ts';
import type { InstanceChange } from '../../client/watching/watched-ids.ts';
import { byId, id, integer, limit, status, time } from './fields.ts';
import { historyEvent } from './response-schemas.ts';
import { route, roles } from './route.ts';

const position = integer(0, Number.MAX_SAFE_INTEGER);
const executionId = integer(1, Number.MAX_SAFE_INTEGER);

/** The query fields that select payloads of a history. */
export const payloadFields = {
  payloads: z.enum(['none', 'head', 'full']).optional(),
  headBytes: integer(1, 65_536).optional(),
};

const timeline: z.ZodType<Timeline> = z
  .strictObject({
    executionId: z.number(),
    items: z.array(
      z.strictObject({
        operation: z.number(),
        kind: z.enum([
          'activity',
          'step',
          'timer',
          'event',
          'child',
          'detached',
          'awakeable',
          'status',
          'state',
        ]),
        name: z.string().exactOptional(),
        childId: z.string().exactOptional(),
        startedAt: time.exactOptional(),
        claimedAt: time.exactOptional(),
        fireAt: time.exactOptional(),
        endedAt: time.exactOptional(),
        outcome: z.enum(['completed', 'failed', 'canceled']).exactOptional(),
        attempts: z.number().exactOptional(),
        worker: z.string().exactOptional(),
        reason: z.string().exactOptional(),
        withdrawnAt: time.exactOptional(),
      }),
    ),
    marks: z.array(
      z.strictObject({
        id: z.number(),
        kind: z.string() as unknown as z.ZodType<Timeline['marks'][number]['kind']>,
        at: time,
        name: z.string().exactOptional(),
      }),
    ),
    nextAfter: z.number().exactOptional(),
  })
  .meta({ id: 'Timeline', description: 'The operations of an execution, without payloads.' });

const treePage: z.ZodType<TreePage> = z.strictObject({
  items: z.array(
    z
      .strictObject({
        id: z.string(),
        parentId: z.string().exactOptional(),
        depth: z.number(),
        kind: z.enum(['orchestration', 'task']),
        name: z.string(),
        version: z.string().exactOptional(),
        status,
        executionId: z.number(),
        createdAt: time,
        startedAt: time.exactOptional(),
        endedAt: time.exactOptional(),
        children: z
          .number()
          .meta({ description: 'Number of direct children. 1,000 means 1,000 or more.' }),
      })
      .meta({ id: 'TreeNode', description: 'An instance as a node of a tree.' }),
  ),
  nextCursor: z.string().exactOptional(),
});

const instanceChange: z.ZodType<InstanceChange> = z
  .strictObject({
    id: z.string(),
    name: z.string().exactOptional(),
    status: status.nullable(),
    executionId: z.number(),
    customStatusVersion: z.number(),
    version: z.string().meta({ description: 'Changes with every change of the instance. Opaque.' }),
  })
  .meta({
    id: 'InstanceChange',
    description: 'The state of a watched instance. `status` is null if it does not exist.',
  });

/** A message with the states of watched instances. */
export const instancesMessage = z.strictObject({
  kind: z.literal('instances'),
  items: z.array(instanceChange),
});

const watchedEvent = z.strictObject({
  kind: z.literal('event'),
  executionId: z.number(),
  id: z.number(),
  position: z
    .string()
    .meta({ description: 'Also the id of the message, for `Last-Event-ID` and `after`.' }),
  event: historyEvent,
  payloadBytes: z.number().exactOptional(),
});

const cursor = z
  .string()
  .meta({ description: 'Also the id of the message, for `Last-Event-ID` and `after`.' });

const streamedChunk = z.strictObject({
  kind: z.literal('chunk'),
  cursor,
  value: z.unknown(),
  at: z.number(),
  source: z.strictObject({
    executionId: z.number(),
    handler: z
      .strictObject({
        name: z.string(),
        operation: z.number(),
        attempt: z.number(),
        runId: z.string().meta({ description: 'Unique per run of the handler.' }),
      })
      .exactOptional()
      .meta({ description: 'Absent: the code of the orchestration.' }),
  }),
});

const droppedChunks = z.strictObject({ kind: z.literal('dropped'), cursor, count: z.number() });

/** An entry of a stream. */
export const streamEntry = z.union([streamedChunk, droppedChunks]);

export const viewRoutes = {
  watchHistory: route({
    method: 'GET',
    path: '/v1/instances/{id}/history/stream',
    role: 'read',
    summary:
      'Streams the events of an instance as they are committed, across continue-as-new. Ends with `kind: end` when the instance has ended. `after` or `Last-Event-ID` is the `position` of the last known event.',
    params: byId,
    query: z.strictObject({ after: z.string().max(30).optional(), ...payloadFields }),
    response: z.union([watchedEvent, z.strictObject({ kind: z.literal('end') })]),
    as: 'events',
  }),
  streamInstance: route({
    method: 'GET',
    path: '/v1/instances/{id}/stream',
    role: 'read',
    summary:
      'Streams the chunks that handlers and the orchestration emit with `ctx.emit`. Ends with `kind: end` when the instance has ended and all were read. `kind: dropped` marks chunks that exceeded the limit of the stream. `after` or `Last-Event-ID` is the `cursor` of the last known message.',
    params: byId,
    query: z.strictObject({ after: z.string().max(30).optional() }),
    response: z.union([...streamEntry.options, z.strictObject({ kind: z.literal('end') })]),
    as: 'events',
  }),
  getTimeline: route({
    method: 'GET',
    path: '/v1/instances/{id}/timeline',
    role: 'read',
    summary:
      'Returns the operations of an execution with start, end, attempts and outcome. A page reads up to 10,000 events; join items of several pages by `operation`.',
    params: byId,
    query: z.strictObject({
      executionId: executionId.optional(),
      after: position.optional(),
      limit: integer(1, 100_000).optional(),
    }),
    response: timeline,
  }),
  readTree: route({
    method: 'GET',
    path: '/v1/instances/{id}/tree/nodes',
    role: 'read',
    summary: 'Returns an instance and its descendants with names, states and times, depth first.',
    params: byId,
    query: z.strictObject({
      limit: limit.optional(),
      cursor: z.string().max(1_200).optional(),
      depth: integer(0, 100).optional(),
    }),
    response: treePage,
  }),
  watchInstances: route({
    method: 'POST',
    path: '/v1/changes',
    role: 'read',
    summary:
      'Streams the states of up to 200 instances: first all of them, then those that changed, at most every 100 ms.',
    body: z.strictObject({ ids: z.array(id).min(1).max(200) }),
    response: instancesMessage,
    as: 'events',
  }),
  me: route({
    method: 'GET',
    path: '/v1/me',
    role: 'read',
    summary: 'Returns the name and the role of the token, and the version and store of the server.',
    response: z.strictObject({
      name: z.string().nullable().meta({ description: 'Null if the server has no tokens.' }),
      role: z.enum(roles as readonly ['read', 'operate', 'admin']),
      definitions: z
        .array(z.string())
        .exactOptional()
        .meta({ description: 'The definitions that the token is restricted to.' }),
      server: z.strictObject({ version: z.string() }),
      store: z.strictObject({ kind: z.string() }),
      capabilities: z
        .array(z.string())
        .meta({ description: 'Names of the routes that the token may call.' }),
    }),
  }),
};
