import { z } from 'zod';
import type { AuditPage } from '../../client/reading/audit-list.ts';
import type { DeleteInstanceResult, PruneResult } from '../../providers/contract/management.ts';
import { actor, byId, cursor, id, limit, moment, name, terminalStatus } from './fields.ts';
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
export const deleted: z.ZodType<DeleteInstanceResult> = z.strictObject(deletedCounts);
/** Number of deleted rows of a prune. */
export const pruned: z.ZodType<PruneResult> = z.strictObject(prunedCounts);

const finished = z.boolean().meta({
  description:
    'False if the time limit of the request was reached: repeat the request to continue.',
});

const many = <Item extends z.ZodType>(item: Item, max: number) =>
  z.union([item, z.array(item).max(max)]);

const filter = z.strictObject({
  instanceIds: z.array(id).max(100_000).optional(),
  completedBefore: moment.optional(),
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
  completedBefore: moment.optional(),
  dryRun: z.boolean().optional(),
  actor: actor.optional(),
};

const auditPage: z.ZodType<AuditPage> = z.strictObject({
  items: z.array(
    z.strictObject({
      auditKey: z.number(),
      auditId: z.string(),
      action: z.enum(['delete', 'deleteBulk', 'prune', 'pruneBulk', 'retention']),
      actor: z.string().nullable(),
      filter: z.string(),
      at: moment,
      ...deletedCounts,
    }),
  ),
  nextCursor: z.string().exactOptional(),
});

/** Routes to delete and prune instances, and to list the audit log. */
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
