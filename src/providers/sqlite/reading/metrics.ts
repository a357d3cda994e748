import { taskActivityName } from '../../../model/task-call.ts';
import type Database from 'better-sqlite3';
import { instanceStatuses, type InstanceStatus } from '../../../model/status.ts';
import type { InstanceSize, SystemMetrics } from '../../contract/management.ts';

type Whole = Omit<SystemMetrics, 'instances'> & { readonly instances: number };

/** Counts rows for operators. */
export class Metrics {
  readonly #statuses;
  readonly #whole;
  readonly #instance;

  constructor(db: Database.Database) {
    // The partial index has these statuses. Completed instances are the difference.
    this.#statuses = db.prepare<[], { status: InstanceStatus; count: number }>(
      `SELECT status, count(*) AS count FROM instances WHERE status <> 'completed' GROUP BY status`,
    );
    this.#whole = db.prepare<[], Whole>(
      `SELECT (SELECT count(*) FROM instances) AS instances,
              (SELECT count(*) FROM instances WHERE paused_at IS NOT NULL) AS pausedInstances,
              (SELECT count(*) FROM paused_definitions AS one WHERE kind <> 'activity' OR NOT EXISTS (
                SELECT 1 FROM paused_definitions AS task
                WHERE task.kind = 'task' AND one.name = '${taskActivityName('')}' || task.name)) AS pausedDefinitions,
              (SELECT count(*) FROM executions) AS finishedExecutions,
              (SELECT coalesce(sum(events), 0) FROM pending_reclaims)
                + (SELECT coalesce(sum(last_seq - first_seq + 1), 0) FROM streams WHERE is_deleted = 1) AS pendingReclaims,
              page_count * page_size AS storageBytes, freelist_count * page_size AS reclaimableBytes
       FROM pragma_page_count, pragma_page_size, pragma_freelist_count`,
    );
    this.#instance = db.prepare<[string], InstanceSize>(
      `SELECT 1 + (SELECT count(*) FROM executions WHERE instance_key = one.instance_key) AS executions,
              history_length + coalesce((SELECT sum(history_length) FROM executions
                                         WHERE instance_key = one.instance_key), 0) AS events,
              (SELECT count(*) FROM instances WHERE parent_instance_id = one.instance_id) AS children,
              (SELECT count(*) FROM orchestrator_queue WHERE instance_key = one.instance_key) AS messages,
              (SELECT count(*) FROM worker_queue WHERE instance_key = one.instance_key) AS activities
       FROM instances AS one WHERE instance_id = ?`,
    );
  }

  system(): SystemMetrics {
    const { instances: all, ...whole } = this.#whole.get() ?? nothing;
    const others = new Map(this.#statuses.all().map(({ status, count }) => [status, count]));
    const countOthers = [...others.values()].reduce((sum, count) => sum + count, 0);
    const count = (status: InstanceStatus) =>
      status === 'completed' ? all - countOthers : (others.get(status) ?? 0);
    const counts = instanceStatuses.map((status) => [status, count(status)] as const);
    return { ...whole, instances: Object.fromEntries(counts) as Record<InstanceStatus, number> };
  }

  instance(instanceId: string): InstanceSize | undefined {
    return this.#instance.get(instanceId);
  }
}

const nothing: Whole = {
  instances: 0,
  pausedInstances: 0,
  pausedDefinitions: 0,
  finishedExecutions: 0,
  storageBytes: 0,
  reclaimableBytes: 0,
  pendingReclaims: 0,
};
