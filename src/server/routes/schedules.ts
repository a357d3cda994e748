import { z } from 'zod';
import type {
  BackfillResult,
  NextTick,
  ScheduleInfo,
  SchedulePage,
  ScheduleRun,
} from '../../client/managing/schedules.ts';
import {
  actor,
  attempt,
  byName,
  done,
  dedupe,
  duration,
  id,
  integer,
  json,
  limit,
  name,
  reason,
  status,
  time,
  version,
  startSettings,
} from './fields.ts';
import { failureSummary } from './response-schemas.ts';
import { route } from './route.ts';

const catchUp = z.enum(['skip', 'one', 'all']);
const overlap = z.enum(['allow', 'skip', 'buffer', 'cancelRunning']);

const schedule: z.ZodType<ScheduleInfo> = z
  .strictObject({
    name: z.string(),
    paused: z.boolean(),
    nextAt: time.exactOptional(),
    lastTickAt: time.exactOptional(),
    lastInstanceId: z.string().exactOptional(),
    lastError: z.string().exactOptional(),
    skippedTicks: z.number().exactOptional(),
    bufferedTicks: z.array(time).exactOptional(),
    runningIds: z.array(z.string()).exactOptional(),
    lastRuns: z
      .array(
        z.strictObject({
          id: z.string(),
          status,
          createdAt: time,
          endedAt: time.exactOptional(),
        }),
      )
      .exactOptional(),
    createdAt: time,
    updatedAt: time,
    definition: z
      .strictObject({
        cron: z.string().exactOptional(),
        timeZone: z.string().exactOptional(),
        everyMs: z.number().exactOptional(),
        startAt: time.exactOptional(),
        endAt: time.exactOptional(),
        catchUp,
        jitterMs: z.number().exactOptional(),
        overlap: overlap.exactOptional(),
        bufferLimit: z.number().exactOptional(),
        starts: z.strictObject({ kind: z.enum(['task', 'orchestration']), name: z.string() }),
      })
      .exactOptional(),
  })
  .meta({ id: 'Schedule', description: 'A schedule with its next and last tick.' });

const schedulePage: z.ZodType<SchedulePage> = z.strictObject({
  items: z.array(schedule),
  nextAfter: z.string().exactOptional(),
});

const audited = { actor: actor.optional(), reason: reason.optional() };

const timing = {
  cron: z.string().max(200).optional(),
  timeZone: z.string().max(100).optional(),
  every: duration.optional(),
  startAt: time.optional(),
  endAt: time.optional(),
  catchUp: catchUp.optional(),
  jitter: duration.optional(),
  overlap: overlap.optional(),
  bufferLimit: z.int().min(1).max(100).optional(),
};

const nextTick: z.ZodType<NextTick> = z.strictObject({
  tickAt: time,
  firesAt: time,
  id: z.string(),
});

const scheduleRun: z.ZodType<ScheduleRun> = z.strictObject({
  id: z.string(),
  name: z.string(),
  status,
  createdAt: time,
  startedAt: time.exactOptional(),
  endedAt: time.exactOptional(),
  tickAt: time.exactOptional(),
  failure: failureSummary.exactOptional(),
});

const backfilled: z.ZodType<BackfillResult> = z.strictObject({
  started: z.number(),
  existing: z.number(),
  nextFrom: time.exactOptional(),
});

// A tick starts at its own time.
const { delay: _, runAt: __, ...tickSettings } = startSettings;

const newSchedule = z.union([
  z.strictObject({
    ...timing,
    ...audited,
    task: name,
    input: json.optional(),
    onFail: z.boolean().optional(),
    options: z
      .strictObject({
        ...tickSettings,
        expiresIn: duration.optional(),
        dedupeKey: id.optional(),
        dedupe: dedupe.optional(),
      })
      .optional(),
  }),
  z.strictObject({
    ...timing,
    ...audited,
    orchestration: name,
    input: json.optional(),
    options: z.strictObject({ version: version.optional(), ...tickSettings }).optional(),
  }),
]);

export const scheduleRoutes = {
  listSchedules: route({
    method: 'GET',
    path: '/v1/schedules',
    role: 'read',
    summary: 'Lists schedules, ordered by name.',
    query: z.strictObject({ limit: limit.optional(), after: name.optional() }),
    response: schedulePage,
  }),
  getSchedule: route({
    method: 'GET',
    path: '/v1/schedules/{name}',
    role: 'read',
    summary: 'Returns a schedule.',
    params: byName,
    response: schedule,
  }),
  putSchedule: route({
    method: 'POST',
    path: '/v1/schedules/{name}',
    role: 'operate',
    summary: 'Creates or replaces a schedule.',
    params: byName,
    body: newSchedule,
    response: schedule,
  }),
  pauseSchedule: route({
    method: 'POST',
    path: '/v1/schedules/{name}/pause',
    role: 'operate',
    summary: 'Pauses a schedule.',
    params: byName,
    body: z.strictObject(audited),
    response: done,
  }),
  resumeSchedule: route({
    method: 'POST',
    path: '/v1/schedules/{name}/resume',
    role: 'operate',
    summary: 'Resumes a paused schedule from its next tick.',
    params: byName,
    body: z.strictObject(audited),
    response: done,
  }),
  deleteSchedule: route({
    method: 'POST',
    path: '/v1/schedules/{name}/delete',
    role: 'admin',
    summary: 'Deletes a schedule. Runs that it started continue.',
    params: byName,
    body: z.strictObject(audited),
    response: z.strictObject({ deleted: z.boolean() }),
  }),
  nextRuns: route({
    method: 'GET',
    path: '/v1/schedules/{name}/next',
    role: 'read',
    summary: 'Returns the next ticks of a schedule.',
    params: byName,
    query: z.strictObject({ count: integer(1, 1_000).optional() }),
    response: z.strictObject({ runs: z.array(time), ticks: z.array(nextTick) }),
  }),
  listScheduleRuns: route({
    method: 'GET',
    path: '/v1/schedules/{name}/runs',
    role: 'read',
    summary: 'Lists the runs that a schedule has started, the newest first.',
    params: byName,
    query: z.strictObject({ limit: integer(1, 100).optional() }),
    response: z.strictObject({ items: z.array(scheduleRun) }),
  }),
  triggerSchedule: route({
    method: 'POST',
    path: '/v1/schedules/{name}/trigger',
    role: 'operate',
    summary: 'Starts one run now. A repeat with the same `key` starts no second run.',
    params: byName,
    body: z.strictObject({
      key: name.optional(),
      actor: actor.optional(),
      reason: reason.optional(),
      ...attempt,
    }),
    response: z.strictObject({ id: z.string(), created: z.boolean() }),
  }),
  backfillSchedule: route({
    method: 'POST',
    path: '/v1/schedules/{name}/backfill',
    role: 'operate',
    summary: 'Starts the runs of past ticks, each at most once.',
    params: byName,
    body: z.strictObject({
      from: time,
      to: time,
      limit: z.int().min(1).max(1_000).optional(),
      dryRun: z.boolean().optional(),
      actor: actor.optional(),
      reason: reason.optional(),
      ...attempt,
    }),
    response: backfilled,
  }),
};
