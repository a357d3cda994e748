import { z } from 'zod';
import type { AuditPage } from '../../client/reading/instance-list.ts';
import type { RetentionPolicy } from '../../management/retention-policy.ts';
import type { RetentionReport, RetentionStatus } from '../../management/retention-records.ts';
import type { DeleteInstanceResult, PruneResult } from '../../providers/contract/management.ts';
import {
  actor,
  byId,
  cursor,
  id,
  limit,
  time,
  name,
  terminalStatus,
  done,
  duration,
} from './fields.ts';
import { route } from './route.ts';

const deletedCounts = {
  instancesDeleted: z.number(),
  executionsDeleted: z.number(),
  eventsDeleted: z.number(),
  queueMessagesDeleted: z.number(),
};
const prunedCounts = {
  instancesProcessed: z.number(),
  executionsDeleted: z.number(),
  eventsDeleted: z.number(),
};

/** Number of deleted rows of a deletion. */
const deleted: z.ZodType<DeleteInstanceResult> = z.strictObject(deletedCounts);
/** Number of deleted rows of a prune. */
const pruned: z.ZodType<PruneResult> = z.strictObject(prunedCounts);

const finished = z.boolean().meta({
  description:
    'False if the time limit of the request was reached: repeat the request to continue.',
});

const many = <Item extends z.ZodType>(item: Item, max: number) =>
  z.union([item, z.array(item).max(max)]);

const filter = z.strictObject({
  instanceIds: z.array(id).max(100_000).optional(),
  completedBefore: time.optional(),
  status: many(terminalStatus, 20).optional(),
  name: many(name, 100).optional(),
  limit: z.int().min(0).optional(),
});

const all = z
  .boolean()
  .optional()
  .meta({ description: 'Confirms that a filter without conditions selects everything.' });

const conditions = {
  keepLast: z.int().min(0).optional(),
  completedBefore: time.optional(),
  dryRun: z.boolean().optional(),
  actor: actor.optional(),
};

const auditPage: z.ZodType<AuditPage> = z.strictObject({
  items: z.array(
    z.strictObject({
      auditKey: z.number(),
      auditId: z.string(),
      action: z.enum([
        'delete',
        'deleteBulk',
        'prune',
        'pruneBulk',
        'retention',
        'trigger',
        'backfill',
      ]),
      actor: z.string().nullable(),
      filter: z.string(),
      at: time,
      ...deletedCounts,
    }),
  ),
  nextCursor: z.string().exactOptional(),
});

export const deletionRoutes = {
  deleteInstance: route({
    method: 'POST',
    path: '/v1/instances/{id}/delete',
    role: 'admin',
    summary:
      'Deletes an ended root instance with all its descendants. `force` also deletes one that is active.',
    params: byId,
    body: z.strictObject({ force: z.boolean().optional(), actor: actor.optional() }),
    response: deleted,
  }),
  deleteInstances: route({
    method: 'POST',
    path: '/v1/bulk/delete',
    role: 'admin',
    summary: 'Deletes all ended root instances that match a filter, with their descendants.',
    body: z.strictObject({
      filter: filter.optional(),
      all,
      dryRun: z.boolean().optional(),
      actor: actor.optional(),
    }),
    response: z.strictObject({
      ...deletedCounts,
      rootsDeleted: z.number(),
      rootsSkipped: z.number(),
      finished,
    }),
    bulk: true,
  }),
  pruneExecutions: route({
    method: 'POST',
    path: '/v1/instances/{id}/prune',
    role: 'admin',
    summary: 'Deletes finished executions of an instance. The current execution stays.',
    params: byId,
    body: z.strictObject(conditions),
    response: pruned,
  }),
  pruneExecutionsBulk: route({
    method: 'POST',
    path: '/v1/bulk/prune',
    role: 'admin',
    summary: 'Deletes finished executions of all instances that match a filter.',
    body: z.strictObject({
      filter: filter.optional(),
      all,
      ...conditions,
      includeRunning: z.boolean().optional(),
    }),
    response: z.strictObject({ ...prunedCounts, finished }),
    bulk: true,
  }),
  listAudit: route({
    method: 'GET',
    path: '/v1/audit',
    role: 'admin',
    summary: 'Lists deletions and prunes, the newest first.',
    query: z.strictObject({ limit: limit.optional(), cursor: cursor.optional() }),
    response: auditPage,
  }),
};

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
  startedAt: time,
  endedAt: time,
  sweeper: z.string(),
  dryRun: z.boolean(),
  outcome: z.enum(['done', 'paused', 'stopped', 'lostLease', 'failed']),
  deleted,
  pruned,
  left: z.number(),
  errors: z.array(z.string()),
});

const retentionStatus: z.ZodType<RetentionStatus> = z.strictObject({
  paused: z.strictObject({ at: time, actor: z.string().nullable() }).nullable(),
  lastReport: report.nullable(),
  policies: z.array(policy).nullable(),
  fullWalkAt: time.nullable(),
});

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
