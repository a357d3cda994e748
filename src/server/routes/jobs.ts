import { z } from 'zod';
import { longestPollMs, route } from './route.ts';
import { wireError, instanceInfo, stopResult } from './response-schemas.ts';
import { actor, byId, done, headers, id, json, moment, name, reason, version } from './fields.ts';

const incarnation = z
  .string()
  .min(8)
  .max(100)
  .meta({ description: 'Made by whoever submits the job: names this life of its id.' });
const key = z.strictObject({ id, incarnation });
const several = z.array(key).min(1).max(1_000);
const byJob = z.strictObject({ id, jobId: id });

const stop = {
  reason: reason.optional(),
  actor: actor.optional(),
  cleanupMs: z.int().min(0).max(31_556_952_000_000).optional(),
};

const ms = z.int().min(0).max(31_556_952_000_000);

/** A job that is sent. */
export const newJob = z.strictObject({
  id,
  incarnation,
  kind: z.enum(['orchestration', 'task']),
  name,
  version: version.optional(),
  input: json.optional(),
  disposable: z
    .boolean()
    .optional()
    .meta({ description: 'Its definition has a hook for a late success that nobody wants.' }),
  task: z
    .strictObject({
      priority: z.number().optional(),
      delayMs: ms.optional(),
      runAt: moment.optional(),
      expiresInMs: ms.optional(),
      expiresAt: moment.optional(),
      dedupeKey: id.optional(),
      headers: headers.optional(),
      onFail: z.boolean().optional(),
    })
    .optional(),
});

const reply = z
  .union([
    z.strictObject({ kind: z.literal('completed'), output: json.exactOptional() }),
    z.strictObject({ kind: z.literal('error'), error: wireError }),
  ])
  .meta({ id: 'JobReply', description: 'The one reply of a job.' });

const chunk = z.strictObject({ seq: z.number(), value: json.exactOptional() });

const place = z.int().min(0);

/** Jobs: runs that are attached to a session. */
export const jobRoutes = {
  submitJobs: route({
    method: 'POST',
    path: '/v1/sessions/{id}/jobs',
    role: 'operate',
    summary: 'Submits jobs; each is answered on its own, in their order. A repeat finds itself.',
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
      'Waits until at least one of some jobs is over, or the time is up; answers those that are.',
    params: byId,
    body: z.strictObject({
      jobs: several,
      timeoutMs: z.int().min(0).max(longestPollMs).optional(),
    }),
    response: z.strictObject({ replies: z.array(z.strictObject({ id, incarnation, reply })) }),
    waits: true,
  }),
  takeJobs: route({
    method: 'POST',
    path: '/v1/sessions/{id}/jobs/taken',
    role: 'operate',
    summary: 'Says that replies have reached their caller.',
    params: byId,
    body: z.strictObject({ jobs: several }),
    response: done,
  }),
  abandonJobs: route({
    method: 'POST',
    path: '/v1/sessions/{id}/jobs/abandon',
    role: 'operate',
    summary: 'Says that nobody wants the replies of jobs any more: asks those that run to stop.',
    params: byId,
    body: z.strictObject({ jobs: several, ...stop }),
    response: z.strictObject({ results: z.array(stopResult) }),
    urgent: true,
  }),
  cancelJobs: route({
    method: 'POST',
    path: '/v1/sessions/{id}/jobs/cancel',
    role: 'operate',
    summary: 'Asks jobs to stop whose reply is still wanted.',
    params: byId,
    body: z.strictObject({ jobs: several, ...stop }),
    response: z.strictObject({ results: z.array(stopResult) }),
    urgent: true,
  }),
  getJob: route({
    method: 'GET',
    path: '/v1/sessions/{id}/jobs/{jobId}',
    role: 'operate',
    summary: 'Reads what is known of the run of a job.',
    params: byJob,
    query: z.strictObject({ incarnation }),
    response: instanceInfo,
  }),
  // Reading forgets what was read before, so it is no GET.
  readChunks: route({
    method: 'POST',
    path: '/v1/sessions/{id}/jobs/chunks',
    role: 'operate',
    summary:
      'Waits until one of some jobs has emitted chunks after a number, or is over, or the time is up; forgets those up to the number. Never loses one.',
    params: byId,
    body: z.strictObject({
      reads: z
        .array(
          z.strictObject({
            ...key.shape,
            after: place.optional(),
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
    summary:
      'Sends the chunks of a job as they come. What was under way when a connection breaks is lost.',
    params: byJob,
    body: z.strictObject({ incarnation, after: place.optional() }),
    response: z.union([
      z.strictObject({ kind: z.literal('chunk'), ...chunk.shape }),
      z.strictObject({ kind: z.literal('over') }),
    ]),
    as: 'events',
  }),
};
