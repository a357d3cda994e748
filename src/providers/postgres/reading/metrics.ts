import { taskActivityName } from '../../../model/task-call.ts';
import { instanceStatuses, type InstanceStatus } from '../../../model/status.ts';
import type {
  InstanceSize,
  QueueDepth,
  QueueDepths,
  SystemMetrics,
} from '../../contract/management.ts';
import { text } from '../driver/arrays.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import type { DefinitionKind } from '../tables/definitions.ts';
import { cleanupDue } from '../wakeups/due-query.ts';
import { nowSql } from '../driver/scope.ts';
import { taskOperation } from '../../shared/work-item-row.ts';

interface DepthRow extends QueueDepth {
  readonly queue: 'orchestrations' | 'activities' | 'tasks';
  readonly messages: number;
}

interface WholeRow extends Omit<SystemMetrics, 'instances'> {
  readonly all: number;
  /** Number of instances per status, except `completed`. */
  readonly others: Readonly<Partial<Record<InstanceStatus, number>>> | null;
}

/** Counts rows for operators. Each method is one statement, so its numbers are from one snapshot. */
export class Metrics {
  readonly #schema: string;
  readonly #depths: Statement;
  readonly #whole: Statement;
  readonly #instance: Statement;

  constructor(schema: string) {
    this.#schema = schema;
    // Canceling instances of a paused definition can be claimed.
    const isPaused = (orPassing: string) =>
      `(definition_key < 0 OR definition_key IN (
         SELECT definition_key FROM ${schema}.paused_definitions JOIN ${schema}.definitions USING (kind, name)) ${orPassing})`;
    const depth = (queue: DepthRow['queue'], table: string, dueAt: string, paused = isPaused('')) =>
      `SELECT '${queue}' AS queue, count(*) FILTER (WHERE ${dueAt} <= ${nowSql} AND NOT ${paused}) AS ready,
         count(*) FILTER (WHERE ${dueAt} > ${nowSql} AND lock_token IS NULL AND NOT ${paused}) AS delayed,
         count(*) FILTER (WHERE locked_until > ${nowSql}) AS claimed,
         count(*) FILTER (WHERE ${paused} AND ${dueAt} IS NOT NULL AND coalesce(locked_until, 0) <= ${nowSql}) AS paused,
         min(${dueAt}) FILTER (WHERE ${dueAt} <= ${nowSql} AND NOT ${paused}) AS "oldestReadyAt",
         (SELECT count(*) FROM ${schema}.orchestrator_queue) AS messages
       FROM ${schema}.${table}`;
    const ofKind = (kind: DefinitionKind) =>
      `WHERE abs(definition_key) IN (SELECT definition_key FROM ${schema}.definitions WHERE kind = '${kind}')`;
    // After its clean-up limit, an instance is claimable even if it is blocked, unless its lease is valid.
    const dueAt = `least(next_at, CASE WHEN cleanup_at IS NOT NULL THEN ${cleanupDue} END)`;
    const itemDueAt = 'greatest(next_at, locked_until)';
    this.#depths = {
      name: 'perdure_queue_depths',
      text: `${depth('orchestrations', 'instance_locks', dueAt, isPaused('AND cleanup_at IS NULL'))}
        UNION ALL ${depth('activities', `worker_queue ${ofKind('activity')}`, itemDueAt)}
        UNION ALL ${depth('tasks', `worker_queue ${ofKind('task')}`, itemDueAt)}`,
    };
    // The instances that are neither live nor in the partial index on `listed_as` have completed. Reclaimable bytes are estimated from the statistics on dead rows.
    this.#whole = {
      name: 'perdure_system_metrics',
      text: `SELECT (SELECT count(*) FROM ${schema}.instances) AS "all",
          (SELECT jsonb_object_agg(status, number) FROM (
            SELECT status, count(*) AS number FROM (
              SELECT listed_as AS status FROM ${schema}.instances WHERE listed_as IS NOT NULL
              UNION ALL
              SELECT live.status FROM ${schema}.live_instances AS one CROSS JOIN LATERAL (
                SELECT status FROM ${schema}.instances WHERE instance_key = one.instance_key LIMIT 1) AS live
              UNION ALL
              SELECT CASE WHEN run.status = 'pending' AND item.started_at IS NOT NULL THEN 'running' ELSE run.status END
              FROM ${schema}.worker_queue AS item CROSS JOIN LATERAL (
                SELECT status FROM ${schema}.instances AS one
                WHERE one.instance_key = item.instance_key AND priority IS NOT NULL AND ended_at IS NULL LIMIT 1) AS run
              WHERE item.execution_id = 1 AND item.operation = ${taskOperation}) AS listed
            GROUP BY status) AS counted) AS others,
          (SELECT count(*) FROM ${schema}.instances WHERE paused_at IS NOT NULL) AS "pausedInstances",
          (SELECT count(*) FROM ${schema}.paused_definitions AS one WHERE kind <> 'activity' OR NOT EXISTS (
            SELECT FROM ${schema}.paused_definitions AS task
            WHERE task.kind = 'task' AND one.name = '${taskActivityName('')}' || task.name)) AS "pausedDefinitions",
          (SELECT count(*) FROM ${schema}.executions) AS "finishedExecutions",
          (SELECT coalesce(sum(events), 0)::bigint FROM ${schema}.pending_reclaims)
            + (SELECT coalesce(sum(last_seq - first_seq + 1), 0)::bigint FROM ${schema}.streams WHERE is_deleted) AS "pendingReclaims",
          coalesce(sum(pg_total_relation_size(oid)), 0)::bigint AS "storageBytes",
          coalesce(sum(pg_total_relation_size(oid) * pg_stat_get_dead_tuples(oid)
            / greatest(pg_stat_get_live_tuples(oid) + pg_stat_get_dead_tuples(oid), 1)), 0)::bigint AS "reclaimableBytes"
        FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind = 'r'`,
    };
    const countOf = (table: string) =>
      `(SELECT count(*) FROM ${schema}.${table} AS held WHERE held.instance_key = one.instance_key)`;
    this.#instance = {
      name: 'perdure_measure_instance',
      text: `SELECT 1 + ${countOf('executions')} AS executions,
          history_length + coalesce((SELECT sum(past.history_length) FROM ${schema}.executions AS past
                                     WHERE past.instance_key = one.instance_key), 0)::bigint AS events,
          (SELECT count(*) FROM ${schema}.instances AS child
           WHERE child.parent_instance_id = one.instance_id) AS children,
          ${countOf('orchestrator_queue')} AS messages, ${countOf('worker_queue')} AS activities
        FROM ${schema}.instances AS one WHERE instance_id = $1`,
    };
  }

  async queueDepths(tx: Transaction, nowParameter: number | null): Promise<QueueDepths> {
    const rows = await tx.query<DepthRow>(this.#depths, [nowParameter]);
    const depthOf = (queue: DepthRow['queue']): QueueDepth => {
      const row = rows.find((one) => one.queue === queue);
      if (row === undefined) throw new Error(`Queue ${JSON.stringify(queue)} was not counted.`);
      const { ready, delayed, claimed, paused, oldestReadyAt } = row;
      return { ready, delayed, claimed, paused, oldestReadyAt };
    };
    return {
      orchestrations: depthOf('orchestrations'),
      activities: depthOf('activities'),
      tasks: depthOf('tasks'),
      messages: rows[0]?.messages ?? 0,
    };
  }

  async system(tx: Transaction): Promise<SystemMetrics> {
    const [row] = await tx.query<WholeRow>(this.#whole, [this.#schema]);
    if (row === undefined) throw new Error('The metrics query returned no row.');
    const { all, others, ...whole } = row;
    const countOthers = Object.values(others ?? {}).reduce((sum, count) => sum + count, 0);
    const count = (status: InstanceStatus) =>
      status === 'completed' ? all - countOthers : (others?.[status] ?? 0);
    const counts = instanceStatuses.map((status) => [status, count(status)] as const);
    return { ...whole, instances: Object.fromEntries(counts) as Record<InstanceStatus, number> };
  }

  async instance(tx: Transaction, instanceId: string): Promise<InstanceSize | undefined> {
    const [row] = await tx.query<InstanceSize>(this.#instance, [text(instanceId)]);
    return row;
  }
}
