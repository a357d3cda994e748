import { z } from 'zod';
import type { AuditPage } from '../../client/reading/instance-list.ts';
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

/** What a deletion took away. */
export const deleted: z.ZodType<DeleteInstanceResult> = z.strictObject(deletedCounts);
/** What a prune took away. */
export const pruned: z.ZodType<PruneResult> = z.strictObject(prunedCounts);

/** Whether a bulk operation came to its end; if not, the same request goes on. */
const finished = z.boolean().meta({
  description: 'False where the time of the request was over first: repeat it to go on.',
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
  .meta({ description: 'Confirms that everything is meant, where there is no condition.' });

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

/** Deleting and pruning. */
export const deletionRoutes = {
  deleteInstance: route({
    method: 'POST',
    path: '/v1/instances/{id}/delete',
    role: 'admin',
    summary: 'Deletes a root that is over with all its descendants, whole or not at all.',
    params: byId,
    body: z.strictObject({ force: z.boolean().optional(), actor: actor.optional() }),
    answer: deleted,
  }),
  deleteInstances: route({
    method: 'POST',
    path: '/v1/bulk/delete',
    role: 'admin',
    summary: 'Deletes all roots that are over and that a filter selects.',
    body: z.strictObject({
      filter: filter.optional(),
      all,
      dryRun: z.boolean().optional(),
      actor: actor.optional(),
    }),
    answer: z.strictObject({
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
    summary: 'Deletes finished executions of an instance; the current one stays.',
    params: byId,
    body: z.strictObject(conditions),
    answer: pruned,
  }),
  pruneExecutionsBulk: route({
    method: 'POST',
    path: '/v1/bulk/prune',
    role: 'admin',
    summary: 'Deletes finished executions of all instances that a filter selects.',
    body: z.strictObject({
      filter: filter.optional(),
      all,
      ...conditions,
      includeRunning: z.boolean().optional(),
    }),
    answer: z.strictObject({ ...prunedCounts, finished }),
    bulk: true,
  }),
  listAudit: route({
    method: 'GET',
    path: '/v1/audit',
    role: 'admin',
    summary: 'Lists what was deleted and pruned, the newest first.',
    query: z.strictObject({ limit: limit.optional(), cursor: cursor.optional() }),
    answer: auditPage,
  }),
};
