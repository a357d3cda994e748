import { z } from 'zod';
import { longestPollMs, route } from './route.ts';
import { wireError, instanceInfo, stopResult } from './response-schemas.ts';
import {
  actor,
  byId,
  done,
  eventBody,
  headers,
  id,
  json,
  laneKey,
  time,
  name,
  reason,
  repeat,
  startSettings,
  tags,
  version,
} from './fields.ts';

const incarnation = z.string().min(8).max(100).meta({
  description:
    'Random id chosen by the submitter. Distinguishes the job from a deleted one with the same id.',
});
const key = z.strictObject({ id, incarnation });
const jobKeys = z.array(key).min(1).max(1_000);
const byJob = z.strictObject({ id, jobId: id });

const stop = {
  reason: reason.optional(),
  actor: actor.optional(),
  cleanupMs: z.int().min(0).max(31_556_952_000_000).optional(),
};

const ms = z.int().min(0).max(31_556_952_000_000);

/** A job to submit. */
export const newJob = z.strictObject({
  id,
  incarnation,
  kind: z.enum(['orchestration', 'task']),
  name,
  version: version.optional(),
  ...startSettings,
  event: eventBody
    .optional()
    .meta({ description: 'Of an orchestration: raised with the start, never at an existing one.' }),
  onConflict: z.enum(['reject', 'terminateExisting']).optional().meta({
    description: '`terminateExisting` replaces a run with the id that is not a job.',
  }),
  input: json.optional(),
  disposable: z.boolean().optional().meta({
    description: 'Whether the definition has a hook for results that the caller gave up.',
  }),
  repeat,
  hasVariables: z.boolean().optional().meta({
    description: 'Whether the session has variables, which handlers read as `ctx.session`.',
  }),
  traceparent: z.string().max(55).optional().meta({
    description: 'W3C trace context of the caller. An invalid one is ignored.',
  }),
  tracestate: z.string().max(512).optional(),
  task: z
    .strictObject({
      priority: z.number().optional(),
      delayMs: ms.optional(),
      runAt: time.optional(),
      expiresInMs: ms.optional(),
      expiresAt: time.optional(),
      dedupeKey: id.optional(),
      dedupeMs: ms.optional(),
      key: laneKey.optional(),
      weight: z.number().optional(),
      timeoutMs: ms.optional(),
      headers: headers.optional(),
      tags: tags.optional(),
      onFail: z.boolean().optional(),
    })
    .optional(),
});

const reply = z
  .union([
    z.strictObject({ kind: z.literal('completed'), output: json.exactOptional() }),
    z.strictObject({ kind: z.literal('error'), error: wireError }),
  ])
  .meta({ id: 'JobReply', description: 'The outcome of a job.' });

const chunk = z.strictObject({ seq: z.number(), value: json.exactOptional() });

const position = z.int().min(0);

export const jobRoutes = {
  submitJobs: route({
    method: 'POST',
    path: '/v1/sessions/{id}/jobs',
    role: 'operate',
    summary: 'Submits jobs. Returns a result for each, in order. Repeating the request is safe.',
    params: byId,
    body: z.strictObject({ jobs: z.array(newJob).min(1).max(1_000) }),
    response: z.strictObject({
      results: z.array(z.strictObject({ error: wireError.exactOptional() })),
    }),
    bulk: true,
  }),
  waitForJobs: route({
    method: 'POST',
    path: '/v1/sessions/{id}/jobs/wait',
    role: 'operate',
    summary:
      'Waits until at least one of several jobs has ended or `timeoutMs` has passed. Returns the replies of ended jobs.',
    params: byId,
    body: z.strictObject({
      jobs: jobKeys,
      timeoutMs: z.int().min(0).max(longestPollMs).optional(),
    }),
    response: z.strictObject({ replies: z.array(z.strictObject({ id, incarnation, reply })) }),
    waits: true,
  }),
  takeJobs: route({
    method: 'POST',
    path: '/v1/sessions/{id}/jobs/taken',
    role: 'operate',
    summary: 'Acknowledges that the caller has received the replies of jobs.',
    params: byId,
    body: z.strictObject({ jobs: jobKeys }),
    response: done,
  }),
  abandonJobs: route({
    method: 'POST',
    path: '/v1/sessions/{id}/jobs/abandon',
    role: 'operate',
    summary: 'Gives up the replies of jobs. Cancels the jobs that are active.',
    params: byId,
    body: z.strictObject({ jobs: jobKeys, ...stop }),
    response: z.strictObject({ results: z.array(stopResult) }),
    urgent: true,
  }),
  cancelJobs: route({
    method: 'POST',
    path: '/v1/sessions/{id}/jobs/cancel',
    role: 'operate',
    summary: 'Cancels jobs. Their replies stay available.',
    params: byId,
    body: z.strictObject({ jobs: jobKeys, ...stop }),
    response: z.strictObject({ results: z.array(stopResult) }),
    urgent: true,
  }),
  getJob: route({
    method: 'GET',
    path: '/v1/sessions/{id}/jobs/{jobId}',
    role: 'operate',
    summary: 'Returns the instance of a job.',
    params: byJob,
    query: z.strictObject({ incarnation }),
    response: instanceInfo,
  }),
  // A read deletes earlier chunks, so the method is POST.
  readChunks: route({
    method: 'POST',
    path: '/v1/sessions/{id}/jobs/chunks',
    role: 'operate',
    summary:
      'Waits until one of several jobs has chunks after `after`, has ended, or `timeoutMs` has passed. Deletes the chunks up to `after`. Loses no chunk.',
    params: byId,
    body: z.strictObject({
      reads: z
        .array(
          z.strictObject({
            ...key.shape,
            after: position.optional(),
            limit: z.int().min(1).max(1_000).optional(),
          }),
        )
        .min(1)
        .max(1_000),
      timeoutMs: z.int().min(0).max(longestPollMs).optional(),
    }),
    response: z.strictObject({
      pages: z.array(z.strictObject({ ...key.shape, chunks: z.array(chunk), over: z.boolean() })),
    }),
    waits: true,
  }),
  streamJob: route({
    method: 'POST',
    path: '/v1/sessions/{id}/jobs/{jobId}/stream',
    role: 'operate',
    summary: 'Streams the chunks of a job. Chunks in transit are lost if the connection breaks.',
    params: byJob,
    body: z.strictObject({ incarnation, after: position.optional() }),
    response: z.union([
      z.strictObject({ kind: z.literal('chunk'), ...chunk.shape }),
      z.strictObject({ kind: z.literal('over') }),
    ]),
    as: 'events',
  }),
};
