import { z } from 'zod';
import { time } from '../server/routes/fields.ts';
import { routes } from '../server/routes/table.ts';

const count = z.number().nonnegative();

/** A finding of `doctor` and `top`. */
const finding = z.strictObject({
  id: z.string().regex(/^[a-z]+(-[a-z]+)*$/),
  level: z.enum(['problem', 'warning', 'note']),
  sentence: z.string().min(1),
  remedy: z.string().min(1),
});

const percentiles = z.strictObject({
  count,
  p50Ms: count.exactOptional(),
  p95Ms: count.exactOptional(),
});

/** The JSON of the commands that create, run and check a project. */
export const startSchemas: Readonly<Record<string, z.ZodType>> = {
  init: z.strictObject({
    directory: z.string(),
    template: z.enum(['hello', 'service', 'agent', 'flow']),
    files: z.array(z.string()),
  }),
  dev: z.strictObject({ store: z.string(), url: z.url(), file: z.string() }),
  serve: z.strictObject({ store: z.string(), url: z.url() }),
  worker: z.strictObject({
    store: z.string(),
    file: z.string(),
    pid: z.number(),
    definitions: z.string(),
  }),
  doctor: z.strictObject({
    target: z.string(),
    checked: z.strictObject({ process: z.literal(true), store: z.boolean(), work: z.boolean() }),
    findings: z.array(finding),
  }),
  top: z.strictObject({
    target: z.string(),
    at: time,
    instances: z.record(z.string(), count),
    storageBytes: count,
    minutes: z.array(z.strictObject({ at: time, starts: count, ends: count })).length(30),
    latency: z.strictObject({ instances: percentiles, attempts: percentiles, waits: percentiles }),
    queues: routes.listQueues.response.shape.items,
    workers: z.array(
      z.strictObject({
        id: z.string(),
        name: z.string(),
        status: z.enum(['live', 'stale']),
        host: z.string(),
        pid: z.number(),
        slots: z.strictObject({ activities: count, orchestrations: count, inUse: count }),
        leaked: count,
        ageMs: count,
      }),
    ),
    findings: z.array(finding),
  }),
  migrate: z.strictObject({
    store: z.string(),
    state: z.enum(['new', 'current', 'older']),
    applied: count,
    pending: z.array(z.strictObject({ number: z.number(), name: z.string() })),
    migrated: z.boolean(),
  }),
};
