import { z } from 'zod';
import type { RetentionPolicy } from '../../management/retention-policy.ts';
import type { RetentionReport, RetentionStatus } from '../../management/retention-records.ts';
import { deleted, pruned } from './deletion.ts';
import { actor, done, duration, moment, name, terminalStatus } from './fields.ts';
import { route } from './route.ts';

const names = z.union([name, z.array(name).max(100)]).exactOptional();
const statuses = z.union([terminalStatus, z.array(terminalStatus).max(20)]).exactOptional();

const policy: z.ZodType<RetentionPolicy> = z.union([
  z.strictObject({ statuses, names, keepFor: duration }),
  z.strictObject({
    names,
    keepExecutions: z.int().min(0),
    keepExecutionsFor: duration.exactOptional(),
  }),
]);

const report: z.ZodType<RetentionReport> = z.strictObject({
  startedAt: moment,
  endedAt: moment,
  sweeper: z.string(),
  dryRun: z.boolean(),
  outcome: z.enum(['done', 'paused', 'stopped', 'lostLease', 'failed']),
  deleted,
  pruned,
  left: z.number(),
  errors: z.array(z.string()),
});

const retentionStatus: z.ZodType<RetentionStatus> = z.strictObject({
  paused: z.strictObject({ at: moment, actor: z.string().nullable() }).nullable(),
  lastReport: report.nullable(),
  policies: z.array(policy).nullable(),
  fullWalkAt: moment.nullable(),
});

/** Routes of retention. */
export const retentionRoutes = {
  getRetention: route({
    method: 'GET',
    path: '/v1/retention',
    role: 'read',
    summary: 'Returns the policies, the pause and the last report of retention.',
    response: retentionStatus,
  }),
  pauseRetention: route({
    method: 'POST',
    path: '/v1/retention/pause',
    role: 'admin',
    summary: 'Pauses the retention sweeps of all workers.',
    body: z.strictObject({ actor: actor.optional() }),
    response: done,
  }),
  resumeRetention: route({
    method: 'POST',
    path: '/v1/retention/resume',
    role: 'admin',
    summary: 'Resumes retention sweeps.',
    body: z.strictObject({}),
    response: done,
  }),
  runRetention: route({
    method: 'POST',
    path: '/v1/retention/run',
    role: 'admin',
    summary: 'Runs a sweep now. `report` is null if another sweep is running.',
    body: z.strictObject({
      policies: z.array(policy).max(1_000).optional(),
      dryRun: z.boolean().optional(),
      actor: actor.optional(),
    }),
    response: z.strictObject({ report: report.nullable() }),
  }),
};
