import type Database from 'better-sqlite3';
import { instanceStatuses, type InstanceStatus } from '../../../model/status.ts';
import type {
  InstanceSize,
  QueueDepth,
  QueueDepths,
  SystemMetrics,
} from '../../contract/management.ts';

type Whole = Omit<SystemMetrics, 'instances'> & { readonly instances: number };

/** Counts rows for operators. */
export class Metrics {
  readonly #orchestrations;
  readonly #activities;
  readonly #tasks;
  readonly #messages;
  readonly #statuses;
  readonly #whole;
  readonly #instance;

  constructor(db: Database.Database) {
    // Canceling instances of a paused definition can be claimed.
    const isPaused = (orPassing: string) =>
      `(definition_key < 0 OR definition_key IN (
         SELECT definition_key FROM paused_definitions JOIN definitions USING (kind, name)) ${orPassing})`;
    const depth = (dueAt: string, paused: string) =>
      `count(*) FILTER (WHERE ${dueAt} <= :now AND NOT ${paused}) AS ready,
       count(*) FILTER (WHERE ${dueAt} > :now AND lock_token IS NULL AND NOT ${paused}) AS delayed,
       count(*) FILTER (WHERE locked_until > :now) AS claimed,
       count(*) FILTER (WHERE ${paused} AND ${dueAt} IS NOT NULL AND coalesce(locked_until, 0) <= :now) AS paused,
       min(${dueAt}) FILTER (WHERE ${dueAt} <= :now AND NOT ${paused}) AS oldestReadyAt`;
    // After its clean-up limit an instance can be claimed although it is held back, unless it is locked.
    const dueAt = `min(next_at, coalesce(max(cleanup_at, coalesce(locked_until, 0)), next_at))`;
    this.#orchestrations = db.prepare<[{ now: number }], QueueDepth>(
      `SELECT ${depth(dueAt, isPaused('AND cleanup_at IS NULL'))} FROM instance_locks`,
    );
    const isOfKind = (kind: string) =>
      `abs(definition_key) IN (SELECT definition_key FROM definitions WHERE kind = '${kind}')`;
    this.#activities = db.prepare<[{ now: number }], QueueDepth>(
      `SELECT ${depth('next_at', isPaused(''))} FROM worker_queue WHERE ${isOfKind('activity')}`,
    );
    this.#tasks = db.prepare<[{ now: number }], QueueDepth>(
      `SELECT ${depth('next_at', isPaused(''))} FROM worker_queue WHERE ${isOfKind('task')}`,
    );
    this.#messages = db.prepare<[], number>('SELECT count(*) FROM orchestrator_queue').pluck();
    // The partial index has these statuses. Completed instances are the difference.
    this.#statuses = db.prepare<[], { status: InstanceStatus; count: number }>(
      `SELECT status, count(*) AS count FROM instances WHERE status <> 'completed' GROUP BY status`,
    );
    this.#whole = db.prepare<[], Whole>(
      `SELECT (SELECT count(*) FROM instances) AS instances,
              (SELECT count(*) FROM instances WHERE paused_at IS NOT NULL) AS pausedInstances,
              (SELECT count(*) FROM paused_definitions) AS pausedDefinitions,
              (SELECT count(*) FROM executions) AS finishedExecutions,
              (SELECT coalesce(sum(events), 0) FROM pending_reclaims) AS pendingReclaims,
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

  queueDepths(now: number): QueueDepths {
    return {
      orchestrations: this.#orchestrations.get({ now }) ?? empty,
      activities: this.#activities.get({ now }) ?? empty,
      tasks: this.#tasks.get({ now }) ?? empty,
      messages: this.#messages.get() ?? 0,
    };
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

const empty: QueueDepth = { ready: 0, delayed: 0, claimed: 0, paused: 0, oldestReadyAt: null };

const nothing: Whole = {
  instances: 0,
  pausedInstances: 0,
  pausedDefinitions: 0,
  finishedExecutions: 0,
  storageBytes: 0,
  reclaimableBytes: 0,
  pendingReclaims: 0,
};
