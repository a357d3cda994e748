import { z } from 'zod';
import type { ScheduleInfo } from '../../client/managing/schedules.ts';
import type { SchedulePage } from '../../client/managing/schedules.ts';
import {
  byName,
  done,
  duration,
  headers,
  id,
  json,
  limit,
  moment,
  name,
  version,
  whole,
} from './fields.ts';
import { route } from './route.ts';

const catchUp = z.enum(['skip', 'one', 'all']);

const schedule: z.ZodType<ScheduleInfo> = z
  .strictObject({
    name: z.string(),
    paused: z.boolean(),
    nextAt: moment.exactOptional(),
    lastTickAt: moment.exactOptional(),
    lastInstanceId: z.string().exactOptional(),
    lastError: z.string().exactOptional(),
    createdAt: moment,
    updatedAt: moment,
    definition: z
      .strictObject({
        cron: z.string().exactOptional(),
        timeZone: z.string().exactOptional(),
        everyMs: z.number().exactOptional(),
        startAt: moment.exactOptional(),
        endAt: moment.exactOptional(),
        catchUp,
        starts: z.strictObject({ kind: z.enum(['task', 'orchestration']), name: z.string() }),
      })
      .exactOptional(),
  })
  .meta({ id: 'Schedule', description: 'What is known of a schedule.' });

const schedulePage: z.ZodType<SchedulePage> = z.strictObject({
  items: z.array(schedule),
  nextAfter: z.string().exactOptional(),
});

const timing = {
  cron: z.string().max(200).optional(),
  timeZone: z.string().max(100).optional(),
  every: duration.optional(),
  startAt: moment.optional(),
  endAt: moment.optional(),
  catchUp: catchUp.optional(),
};

const newSchedule = z.union([
  z.strictObject({
    ...timing,
    task: name,
    input: json.optional(),
    onFail: z.boolean().optional(),
    options: z
      .strictObject({
        priority: z.number().optional(),
        expiresIn: duration.optional(),
        dedupeKey: id.optional(),
        headers: headers.optional(),
      })
      .optional(),
  }),
  z.strictObject({
    ...timing,
    orchestration: name,
    input: json.optional(),
    options: z.strictObject({ version: version.optional() }).optional(),
  }),
]);

/** What is started at given times. */
export const scheduleRoutes = {
  listSchedules: route({
    method: 'GET',
    path: '/v1/schedules',
    role: 'read',
    summary: 'Lists schedules by name, one page at a time.',
    query: z.strictObject({ limit: limit.optional(), after: name.optional() }),
    answer: schedulePage,
  }),
  getSchedule: route({
    method: 'GET',
    path: '/v1/schedules/{name}',
    role: 'read',
    summary: 'Reads a schedule.',
    params: byName,
    answer: schedule,
  }),
  putSchedule: route({
    method: 'POST',
    path: '/v1/schedules/{name}',
    role: 'operate',
    summary: 'Creates a schedule, or changes the one of this name.',
    params: byName,
    body: newSchedule,
    answer: schedule,
  }),
  pauseSchedule: route({
    method: 'POST',
    path: '/v1/schedules/{name}/pause',
    role: 'operate',
    summary: 'Stops a schedule from firing until it is resumed.',
    params: byName,
    body: z.strictObject({}),
    answer: done,
  }),
  resumeSchedule: route({
    method: 'POST',
    path: '/v1/schedules/{name}/resume',
    role: 'operate',
    summary: 'Lets a paused schedule fire again, from its next tick on.',
    params: byName,
    body: z.strictObject({}),
    answer: done,
  }),
  deleteSchedule: route({
    method: 'POST',
    path: '/v1/schedules/{name}/delete',
    role: 'admin',
    summary: 'Deletes a schedule; what it started goes on.',
    params: byName,
    body: z.strictObject({}),
    answer: z.strictObject({ deleted: z.boolean() }),
  }),
  nextRuns: route({
    method: 'GET',
    path: '/v1/schedules/{name}/next',
    role: 'read',
    summary: 'Tells when a schedule fires next.',
    params: byName,
    query: z.strictObject({ count: whole(1, 1_000).optional() }),
    answer: z.strictObject({ runs: z.array(moment) }),
  }),
};
