import { z } from 'zod';
import type { FlowGraphNode, FlowRunGraph } from '../../flows/reading/flow-graph.ts';
import type { FlowItemPage, FlowRun, StepState } from '../../flows/reading/flow-run.ts';
import {
  byId,
  done,
  id,
  json,
  limit,
  time,
  name,
  startIdentity,
  startSettings,
  status,
  version,
  integer,
} from './fields.ts';
import { blockedInfo, failure } from './response-schemas.ts';
import { longestPollMs, route } from './route.ts';

const stepStatus = z.enum([
  'pending',
  'queued',
  'running',
  'completed',
  'failed',
  'skipped',
  'canceled',
]);

const stateFields = {
  status: stepStatus,
  attempts: z.number().exactOptional(),
  queuedAt: time.exactOptional(),
  startedAt: time.exactOptional(),
  endedAt: time.exactOptional(),
  output: json.exactOptional(),
  outputOmitted: z.literal(true).exactOptional(),
  failure: failure.exactOptional(),
  reason: z.string().exactOptional(),
  worker: z.string().exactOptional(),
};
const stepState: z.ZodType<StepState> = z.strictObject(stateFields);
const count = z.number();
const stepKind = z.enum(['step', 'map', 'generator', 'reduce']);
const itemCounts = z.strictObject({
  pending: count,
  queued: count,
  running: count,
  completed: count,
  failed: count,
  canceled: count,
});
const {
  output: _output,
  outputOmitted: _outputOmitted,
  failure: _failure,
  ...nodeFields
} = stateFields;

const flowGraph: z.ZodType<FlowRunGraph> = z
  .strictObject({
    id: z.string(),
    flow: z.string(),
    status,
    startedAt: time.exactOptional(),
    endedAt: time.exactOptional(),
    nodes: z.array(
      z.strictObject({
        name: z.string(),
        kind: stepKind,
        ...nodeFields,
        items: itemCounts.exactOptional(),
        failure: z.strictObject({ name: z.string(), message: z.string() }).exactOptional(),
        when: (json as z.ZodType<NonNullable<FlowGraphNode['when']>>).exactOptional(),
        signal: z.strictObject({ name: z.string(), received: z.boolean() }).exactOptional(),
      }),
    ),
    edges: z.array(
      z.strictObject({
        from: z.string(),
        to: z.string(),
        kind: z.enum(['needs', 'optional', 'after', 'over', 'when']),
        streamed: z.literal(true).exactOptional(),
      }),
    ),
    output: z.array(z.string()),
    completedEarly: z.strictObject({ step: z.string(), reason: z.string() }).exactOptional(),
    onFail: z.strictObject(nodeFields).exactOptional(),
  })
  .meta({ id: 'FlowGraph', description: 'The graph of a flow run with the state of each step.' });

const flowRun: z.ZodType<FlowRun> = z
  .strictObject({
    id: z.string(),
    flow: z.string(),
    status,
    priority: z.number().exactOptional(),
    input: json.exactOptional(),
    output: json.exactOptional(),
    failure: failure.exactOptional(),
    createdAt: time,
    startedAt: time.exactOptional(),
    endedAt: time.exactOptional(),
    cancel: z
      .strictObject({ reason: z.string(), actor: z.string().nullable(), requestedAt: time })
      .exactOptional(),
    canceledAt: time.exactOptional(),
    blocked: blockedInfo.exactOptional(),
    completedEarly: z.strictObject({ step: z.string(), reason: z.string() }).exactOptional(),
    signals: z.array(z.string()),
    steps: z.array(
      z.strictObject({
        name: z.string(),
        kind: z.enum(['step', 'map', 'generator', 'reduce']),
        ...stateFields,
        items: z
          .strictObject({
            pending: count,
            queued: count,
            running: count,
            completed: count,
            failed: count,
            canceled: count,
          })
          .exactOptional(),
      }),
    ),
    onFail: stepState.exactOptional(),
  })
  .meta({ id: 'FlowRun', description: 'A flow run with its steps.' });

const flowItems: z.ZodType<FlowItemPage> = z.strictObject({
  items: z.array(z.strictObject({ index: z.number(), item: json.exactOptional(), ...stateFields })),
  nextAfter: z.number().exactOptional(),
});

export const flowRoutes = {
  listFlows: route({
    method: 'GET',
    path: '/v1/flows',
    role: 'read',
    summary: 'Lists the flows of the server with their graphs.',
    response: z.strictObject({
      items: z.array(z.strictObject({ name: z.string(), graph: z.record(z.string(), json) })),
    }),
  }),
  startFlow: route({
    method: 'POST',
    path: '/v1/flows/{name}/runs',
    role: 'operate',
    summary: 'Starts a run of a flow of the server.',
    params: z.strictObject({ name }),
    body: z.strictObject({
      input: json.optional(),
      id: id.optional(),
      version: version.optional(),
      ...startSettings,
      ...startIdentity,
    }),
    response: z.strictObject({ id: z.string() }),
  }),
  getFlowRun: route({
    method: 'GET',
    path: '/v1/flow-runs/{id}',
    role: 'read',
    summary: 'Returns a flow run with the state of every step.',
    params: byId,
    response: flowRun,
  }),
  getFlowGraph: route({
    method: 'GET',
    path: '/v1/flow-runs/{id}/graph',
    role: 'read',
    summary: 'Returns the steps and edges of a flow run with states, times and counts of items.',
    params: byId,
    response: flowGraph,
  }),
  listFlowItems: route({
    method: 'GET',
    path: '/v1/flow-runs/{id}/items',
    role: 'read',
    summary: 'Returns a page of the items of a map or generator step. A page ends at 8 MiB.',
    params: byId,
    query: z.strictObject({
      step: name,
      after: integer(-1, Number.MAX_SAFE_INTEGER).optional(),
      limit: limit.optional(),
    }),
    response: flowItems,
  }),
  signalFlow: route({
    method: 'POST',
    path: '/v1/flow-runs/{id}/signals',
    role: 'operate',
    summary: 'Sends a signal to a flow run. Waits for its delivery, up to `timeoutMs`.',
    params: byId,
    body: z.strictObject({
      name,
      payload: json.optional(),
      timeoutMs: z.int().min(0).max(longestPollMs).optional(),
    }),
    response: done,
    waits: true,
  }),
};
