import type Database from 'better-sqlite3';
import type { QueueDepth, QueueDepths } from '../../contract/management.ts';
import { sumDepths } from '../../rules/queue-depths.ts';
import type { StoreAccess } from '../batches/group-commit.ts';
import { nextIteration } from '../../../model/platform.ts';

interface Slice {
  readonly afterKey: number;
  readonly rows: number;
  readonly now: number;
}

/** The entries of one queue in a slice of a table. */
interface Part extends QueueDepth {
  readonly queue: 'orchestrations' | 'activities' | 'tasks' | 'messages';
  readonly rows: number;
  readonly lastKey: number;
}

// A slice of this size takes a few milliseconds.
const rowsPerSlice = 5_000;

/** Counts entries of the queues, one slice of a table at a time. */
export class QueueDepthSlices {
  readonly tables: readonly Database.Statement<[Slice], Part>[];

  constructor(db: Database.Database) {
    const isPaused = `definition_key < 0 OR definition_key IN (
      SELECT definition_key FROM paused_definitions JOIN definitions USING (kind, name))`;
    const slice = (table: string, key: string, columns: string) =>
      `(SELECT ${key} AS key${columns} FROM ${table} WHERE ${key} > :afterKey ORDER BY ${key} LIMIT :rows)`;
    const part = 'count(*) AS rows, coalesce(max(key), 0) AS lastKey';
    const depth = `count(*) FILTER (WHERE due_at <= :now AND NOT is_paused) AS ready,
      count(*) FILTER (WHERE due_at > :now AND locked_until IS NULL AND NOT is_paused) AS delayed,
      count(*) FILTER (WHERE locked_until > :now) AS claimed,
      count(*) FILTER (WHERE is_paused AND due_at IS NOT NULL AND coalesce(locked_until, 0) <= :now) AS paused,
      min(due_at) FILTER (WHERE due_at <= :now AND NOT is_paused) AS oldestReadyAt`;
    // After its clean-up limit an instance can be claimed although it is held back, unless it is locked.
    const dueAt = `min(next_at, coalesce(max(cleanup_at, coalesce(locked_until, 0)), next_at))`;
    const isTask = `abs(definition_key) IN (SELECT definition_key FROM definitions WHERE kind = 'task')`;
    this.tables = [
      // Canceling instances of a paused definition can be claimed.
      db.prepare<[Slice], Part>(
        `SELECT 'orchestrations' AS queue, ${part}, ${depth} FROM ${slice(
          'instance_locks',
          'instance_key',
          `, locked_until, ${dueAt} AS due_at, (${isPaused} AND cleanup_at IS NULL) AS is_paused`,
        )}`,
      ),
      db.prepare<[Slice], Part>(
        `SELECT CASE WHEN is_task THEN 'tasks' ELSE 'activities' END AS queue, ${part}, ${depth} FROM ${slice(
          'worker_queue',
          'item_key',
          `, locked_until, next_at AS due_at, (${isPaused}) AS is_paused, ${isTask} AS is_task`,
        )} GROUP BY is_task`,
      ),
      db.prepare<[Slice], Part>(
        `SELECT 'messages' AS queue, ${part}, 0 AS ready, 0 AS delayed, 0 AS claimed, 0 AS paused, NULL AS oldestReadyAt
         FROM ${slice('orchestrator_queue', 'message_key', '')}`,
      ),
    ];
  }
}

/** Reads each slice in a transaction of its own, so that other work runs between them. */
export async function readQueueDepths(
  store: StoreAccess & { readonly queueDepthSlices: QueueDepthSlices },
): Promise<QueueDepths> {
  const all: Part[] = [];
  const now = store.now();
  for (const table of store.queueDepthSlices.tables) {
    for (let afterKey = 0; ;) {
      const slice = { afterKey, rows: rowsPerSlice, now };
      const parts = await store.read('queueDepths', () => table.all(slice));
      all.push(...parts);
      if (parts.reduce((sum, { rows }) => sum + rows, 0) < rowsPerSlice) break;
      afterKey = Math.max(...parts.map(({ lastKey }) => lastKey));
      await nextIteration();
    }
  }
  const depthOf = (queue: Part['queue']): QueueDepth =>
    sumDepths(all.filter((one) => one.queue === queue));
  return {
    orchestrations: depthOf('orchestrations'),
    activities: depthOf('activities'),
    tasks: depthOf('tasks'),
    messages: all.reduce((total, one) => total + (one.queue === 'messages' ? one.rows : 0), 0),
  };
}
