import { z } from 'zod';
import type { ErrorCode } from '../../model/failures/errors.ts';
import type { BulkResult } from '../../management/bulk-call.ts';
import { actor, duration, id, json, name, reason, status, tags, time, version } from './fields.ts';
import { route } from './route.ts';

/** The filter of a list, in a body. */
const filter = z.strictObject({
  status: z.array(status).min(1).max(20).optional(),
  kind: z.enum(['orchestration', 'task', 'flow']).optional(),
  name: z.union([name, z.array(name).min(1).max(20)]).optional(),
  version: version.optional(),
  idPrefix: id.optional(),
  parentId: id.optional(),
  rootsOnly: z.boolean().optional(),
  createdFrom: time.optional(),
  createdBefore: time.optional(),
  endedFrom: time.optional(),
  endedBefore: time.optional(),
  failureCode: z.string().min(1).max(1_000).optional(),
  failureText: z.string().min(1).max(1_000).optional(),
  blocked: z.boolean().optional(),
  leaked: z.boolean().optional(),
  paused: z.boolean().optional(),
  unregistered: z.boolean().optional(),
  tags: tags.optional(),
});

const common = {
  filter: filter.optional(),
  all: z
    .boolean()
    .optional()
    .meta({ description: 'Confirms that a filter without conditions selects everything.' }),
  dryRun: z.boolean().optional(),
  limit: z.int().min(1).optional(),
  cursor: z.string().max(200).optional().meta({
    description:
      'The `cursor` of the previous response. Pass one from the first request on to repeat a request safely.',
  }),
  reason: reason.optional(),
  actor: actor.optional(),
};

const result: z.ZodType<BulkResult> = z
  .strictObject({
    matched: z.number(),
    changed: z.number(),
    refused: z.array(
      z.strictObject({
        id: z.string(),
        code: z.string() as unknown as z.ZodType<ErrorCode>,
        reason: z.string(),
      }),
    ),
    refusedMore: z.number(),
    done: z.boolean(),
    cursor: z.string().exactOptional(),
    preview: z
      .strictObject({
        byStatus: z.partialRecord(status, z.number()),
        sample: z.array(z.string()),
        capped: z.boolean(),
      })
      .exactOptional(),
  })
  .meta({
    id: 'BulkResult',
    description:
      'The totals of a bulk operation. Unless `done`, repeat the request with `cursor` to continue.',
  });

/** Each request visits at most 1,000 instances in about 2 seconds. */
export const bulkRoutes = {
  bulkCancel: route({
    method: 'POST',
    path: '/v1/bulk/cancel',
    role: 'operate',
    summary: 'Cancels the instances that match a filter, part by part.',
    body: z.strictObject({ ...common, cleanupTimeout: duration.optional() }),
    response: result,
  }),
  bulkTerminate: route({
    method: 'POST',
    path: '/v1/bulk/terminate',
    role: 'operate',
    summary: 'Terminates the instances that match a filter, part by part.',
    body: z.strictObject({ ...common, tree: z.boolean().optional() }),
    response: result,
  }),
  bulkRetry: route({
    method: 'POST',
    path: '/v1/bulk/retry',
    role: 'operate',
    summary: 'Retries the ended roots that match a filter, part by part. Each is retried once.',
    body: z.strictObject({ ...common, from: z.enum(['failure', 'start']) }),
    response: result,
  }),
  bulkPause: route({
    method: 'POST',
    path: '/v1/bulk/pause',
    role: 'operate',
    summary: 'Pauses the instances that match a filter, part by part.',
    body: z.strictObject({ ...common, tree: z.boolean().optional() }),
    response: result,
  }),
  bulkResume: route({
    method: 'POST',
    path: '/v1/bulk/resume',
    role: 'operate',
    summary: 'Resumes the instances that match a filter, part by part.',
    body: z.strictObject({ ...common, tree: z.boolean().optional() }),
    response: result,
  }),
  bulkRaiseEvent: route({
    method: 'POST',
    path: '/v1/bulk/raise-event',
    role: 'operate',
    summary:
      'Sends an event to the instances that match a filter, part by part. Each gets it once.',
    body: z.strictObject({ ...common, name, payload: json.optional() }),
    response: result,
  }),
  bulkDelete: route({
    method: 'POST',
    path: '/v1/bulk/delete-trees',
    role: 'admin',
    summary:
      'Deletes the ended root instances that match a list filter with their descendants, part by part.',
    body: z.strictObject(common),
    response: result,
  }),
  bulkPrune: route({
    method: 'POST',
    path: '/v1/bulk/prune-executions',
    role: 'admin',
    summary: 'Deletes finished executions of the instances that match a list filter, part by part.',
    body: z.strictObject({
      ...common,
      keepLast: z.int().min(0).optional(),
      completedBefore: time.optional(),
    }),
    response: result,
  }),
};
