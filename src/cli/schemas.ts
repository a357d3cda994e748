import { z } from 'zod';
import { status, time } from '../server/routes/fields.ts';
import {
  cancelFields,
  exportedHistory,
  failure,
  historyEvent,
  historyPage,
  instanceCount,
  instanceInfo,
  instancePage,
} from '../server/routes/response-schemas.ts';
import { routes } from '../server/routes/table.ts';
import { streamEntry } from '../server/routes/views.ts';
import { startSchemas } from './schemas-start.ts';

/** The error of a call, and of an instance among several. */
const errorSchema = z.strictObject({
  exitCode: z.number(),
  code: z.string(),
  message: z.string(),
  next: z.string().exactOptional(),
});

/** The document that `--json` writes to the standard error if a command fails. */
export const failedSchema = z.strictObject({ error: errorSchema });

const refused = z.strictObject({ id: z.string(), error: errorSchema });
const bulkResult = routes.bulkCancel.response;

/** The outcomes of ids in order, or the result of a filter. */
function each(result: Readonly<Record<string, z.ZodType>>): z.ZodType {
  const item = z.strictObject({ id: z.string(), ...result });
  return z.union([z.strictObject({ items: z.array(z.union([refused, item])) }), bulkResult]);
}

/** The object of a route with more fields. */
function extended(schema: z.ZodType, fields: Readonly<Record<string, z.ZodType>>): z.ZodType {
  return (schema as unknown as z.ZodObject).extend(fields);
}

const stopped = { found: z.boolean(), changed: z.boolean(), status: status.nullable() };
const paused = { ...stopped, paused: z.boolean() };
const started = z.strictObject({ id: z.string(), created: z.boolean() });
const ended = z.strictObject({
  id: z.string(),
  status,
  output: z.unknown().optional(),
  failure: failure.exactOptional(),
  cancel: z.strictObject(cancelFields).exactOptional(),
  terminated: z.strictObject({ reason: z.string(), actor: z.string().nullable() }).exactOptional(),
});
const pausedDefinition = z.strictObject({
  items: z.array(z.strictObject({ definition: z.string(), ...paused })),
});
const watched = z.union([
  z.strictObject({
    id: z.number(),
    executionId: z.number(),
    position: z.string(),
    event: historyEvent,
    payloadBytes: z.number().exactOptional(),
  }),
  z.strictObject({
    id: z.string(),
    name: z.string().exactOptional(),
    status: status.nullable(),
    executionId: z.number(),
    customStatusVersion: z.number(),
    version: z.string(),
  }),
]);
const { report } = routes.runRetention.response.shape;

/** The JSON of each command: one document, or with `watch` and `stream` one line per entry. */
export const schemas: Readonly<Record<string, z.ZodType>> = {
  ...startSchemas,
  list: z.union([instancePage, instanceCount]),
  show: instanceInfo,
  why: routes.explainInstance.response,
  state: routes.readState.response,
  history: historyPage,
  tree: routes.readTree.response,
  watch: watched,
  stream: streamEntry,
  result: ended,
  queues: routes.listQueues.response,
  workers: z.strictObject({
    items: routes.listWorkers.response.shape.items,
    unclaimed: routes.listUnclaimedWork.response.shape.items,
  }),
  tasks: routes.listDefinitions.response,
  flows: routes.listDefinitions.response,
  export: z.union([exportedHistory, z.strictObject({ path: z.string(), events: z.number() })]),
  replay: z.union([
    z.strictObject({ ok: z.literal(true), events: z.number() }),
    z.strictObject({
      ok: z.literal(false),
      eventId: z.number(),
      message: z.string(),
      events: z.number(),
    }),
  ]),
  start: z.union([started, ended]),
  retry: each({ executionId: z.number(), keptEvents: z.number() }),
  fork: z.strictObject({ id: z.string() }),
  event: z.strictObject({ id: z.string(), event: z.string() }),
  update: z.strictObject({ id: z.string(), update: z.string(), output: z.unknown() }),
  cancel: each(stopped),
  terminate: each(stopped),
  pause: z.union([each(paused), pausedDefinition]),
  resume: z.union([each(paused), pausedDefinition]),
  delete: each({
    instancesDeleted: z.number(),
    executionsDeleted: z.number(),
    eventsDeleted: z.number(),
    queueMessagesDeleted: z.number(),
  }),
  prune: each({
    instancesProcessed: z.number(),
    executionsDeleted: z.number(),
    eventsDeleted: z.number(),
  }),
  'schedules list': routes.listSchedules.response,
  'schedules show': extended(routes.getSchedule.response, {
    next: routes.nextRuns.response.shape.ticks,
    runs: routes.listScheduleRuns.response.shape.items,
  }),
  'schedules trigger': z.strictObject({ id: z.string(), created: z.boolean() }),
  'schedules pause': z.strictObject({ name: z.string(), paused: z.literal(true) }),
  'schedules resume': z.strictObject({ name: z.string(), paused: z.literal(false) }),
  'schedules backfill': z.strictObject({
    started: z.number(),
    existing: z.number(),
    nextFrom: time.exactOptional(),
  }),
  'limits list': routes.listLimits.response,
  'limits show': extended(routes.setLimits.response, {
    keys: (routes.listLimitKeys.response as unknown as z.ZodObject<{ items: z.ZodType }>).shape
      .items,
    nextAfter: z.string().exactOptional(),
  }),
  'limits set': routes.setLimits.response,
  'limits reset': routes.resetLimits.response,
  'sessions list': routes.listSessions.response,
  'sessions show': extended(routes.getSession.response, {
    jobs: (routes.listJobs.response as unknown as z.ZodObject<{ items: z.ZodType }>).shape.items,
  }),
  'sessions shutdown': z.strictObject({
    id: z.string(),
    mode: z.enum(['graceful', 'forceful']),
    state: z.literal('ended'),
  }),
  retention: routes.getRetention.response,
  'retention run': report.unwrap(),
  'retention pause': z.strictObject({ paused: z.literal(true) }),
  'retention resume': z.strictObject({ paused: z.literal(false) }),
  audit: routes.listAudit.response,
  'token create': z.strictObject({
    token: z.string().exactOptional(),
    entry: z.strictObject({
      name: z.string(),
      role: z.enum(['read', 'operate', 'admin']),
      sha256: z.string().length(64),
      definitions: z.array(z.string()).exactOptional(),
      expiresAt: time.exactOptional(),
    }),
  }),
  completion: z.strictObject({ shell: z.string(), script: z.string() }),
  version: z.strictObject({ perdure: z.string(), node: z.string() }),
};
