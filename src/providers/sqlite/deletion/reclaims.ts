import type Database from 'better-sqlite3';
import type { StreamRows } from '../tables/stream-rows.ts';

/** Whether there are histories and streams, expired tombstones, and expired starts to delete. */
interface Due {
  readonly rows: 0 | 1;
  readonly tombstones: 0 | 1;
  readonly starts: 0 | 1;
}

interface Entry {
  readonly instanceKey: number;
  /** 0: all executions of the instance. */
  readonly executionId: number;
  readonly events: number;
}

/** The rows of `pending_reclaims`, and the histories to delete for them. Also deletes streams of deleted instances. */
export class Reclaims {
  readonly #streamRows: StreamRows;
  readonly #addInstances;
  readonly #addExecutions;
  readonly #first;
  readonly #remove;
  readonly #shorten;
  readonly #deleteInstances;
  readonly #deleteExecutions;
  readonly #boundary;
  readonly #deleteUpTo;
  readonly #hasAny;
  readonly #due;

  constructor(db: Database.Database, streamRows: StreamRows) {
    this.#streamRows = streamRows;
    // Reads rows that are about to be deleted. An instance that never ran has no events.
    this.#addInstances = db.prepare<[string]>(
      `INSERT INTO pending_reclaims (instance_key, execution_id, events)
       SELECT instance_key, 0, history_length + coalesce((SELECT sum(history_length) FROM executions
                                                          WHERE instance_key = instances.instance_key), 0) AS events
       FROM instances WHERE instance_key IN (SELECT value FROM json_each(?)) AND events > 0`,
    );
    this.#addExecutions = db.prepare<[number, string]>(
      `INSERT INTO pending_reclaims (instance_key, execution_id, events)
       SELECT instance_key, execution_id, history_length FROM executions
       WHERE instance_key = ? AND execution_id IN (SELECT value FROM json_each(?)) AND history_length > 0`,
    );
    this.#first = db.prepare<[number], Entry>(
      `SELECT instance_key AS instanceKey, execution_id AS executionId, events
       FROM pending_reclaims ORDER BY instance_key, execution_id LIMIT +?`,
    );
    this.#remove = db.prepare<[string]>(
      `DELETE FROM pending_reclaims WHERE (instance_key, execution_id) IN
         (SELECT value ->> 0, value ->> 1 FROM json_each(?))`,
    );
    this.#shorten = db.prepare<[number, number, number]>(
      `UPDATE pending_reclaims SET events = max(events - ?, 1)
       WHERE instance_key = ? AND execution_id = ?`,
    );
    this.#deleteInstances = new EventDeletion<[string]>(
      db,
      'instance_key IN (SELECT value FROM json_each(?))',
    );
    this.#deleteExecutions = new EventDeletion<[string]>(
      db,
      '(instance_key, execution_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))',
    );
    this.#boundary = db.prepare<[number, number, number], { executionId: number; eventId: number }>(
      `SELECT execution_id AS executionId, event_id AS eventId FROM history
       WHERE instance_key = ? AND execution_id >= ?
       ORDER BY execution_id, event_id LIMIT 1 OFFSET +?`,
    );
    this.#deleteUpTo = new EventDeletion<[number, number, number, number]>(
      db,
      'instance_key = ? AND execution_id >= ? AND (execution_id, event_id) < (?, ?)',
    );
    const hasAny = `EXISTS (SELECT 1 FROM pending_reclaims LIMIT 1)
      OR EXISTS (SELECT 1 FROM streams WHERE is_deleted = 1 AND instance_key > 0)`;
    this.#hasAny = db.prepare<[], 0 | 1>(`SELECT ${hasAny}`).pluck();
    this.#due = db.prepare<[{ now: number }], Due>(
      `SELECT ${hasAny} AS rows,
         EXISTS (SELECT 1 FROM tombstones WHERE locked_until <= :now LIMIT 1) AS tombstones,
         EXISTS (SELECT 1 FROM deleted_starts WHERE expires_at <= :now LIMIT 1) AS starts`,
    );
  }

  /** Schedules the histories of instances for deletion. Call it before their rows are deleted. */
  addInstances(instanceKeys: readonly number[]): void {
    this.#addInstances.run(JSON.stringify(instanceKeys));
  }

  /** Schedules the histories of executions for deletion. Call it before their rows are deleted. */
  addExecutions(instanceKey: number, executionIds: readonly number[]): void {
    this.#addExecutions.run(instanceKey, JSON.stringify(executionIds));
  }

  /** Deletes the histories of instances immediately. */
  deleteInstances(instanceKeys: readonly number[]): void {
    this.#deleteInstances.run(JSON.stringify(instanceKeys));
  }

  /** Deletes the histories of executions immediately. */
  deleteExecutions(instanceKey: number, executionIds: readonly number[]): void {
    this.#deleteExecutions.run(JSON.stringify(executionIds.map((id) => [instanceKey, id])));
  }

  /** Deletes about `maxRows` scheduled events and chunks. Returns their number, and whether some are left. */
  run(maxRows: number): { readonly rows: number; readonly left: boolean } {
    const max = Math.max(Math.floor(maxRows), 0);
    const events = this.#runEntries(this.#first.all(max), max);
    const rows = events + this.#streamRows.reclaim(Math.max(max - events, 0));
    return { rows, left: this.hasAny() };
  }

  /** What there is to delete. */
  due(now: number): Due {
    return this.#due.get({ now }) ?? { rows: 0, tombstones: 0, starts: 0 };
  }

  /** Whether any history or stream is scheduled for deletion. */
  hasAny(): boolean {
    return this.#hasAny.get() === 1;
  }

  #runEntries(entries: readonly Entry[], max: number): number {
    const whole: Entry[] = [];
    let events = 0;
    for (const entry of entries) {
      if (events + entry.events > max) break;
      events += entry.events;
      whole.push(entry);
    }
    const [first] = entries;
    if (whole.length === 0) return first === undefined ? 0 : this.#runPart(first, max);
    const pairs = (of: readonly Entry[]) =>
      JSON.stringify(of.map(({ instanceKey, executionId }) => [instanceKey, executionId]));
    const executions = whole.filter(({ executionId }) => executionId > 0);
    const instances = whole.filter(({ executionId }) => executionId === 0);
    const instanceKeys = instances.map(({ instanceKey }) => instanceKey);
    this.#remove.run(pairs(whole));
    return (
      this.#deleteInstances.run(JSON.stringify(instanceKeys)) +
      this.#deleteExecutions.run(pairs(executions))
    );
  }

  /** Deletes the first `max` events of a longer history. */
  #runPart({ instanceKey, executionId }: Entry, max: number): number {
    const end = this.#boundary.get(instanceKey, executionId, max);
    const isWithin = end !== undefined && (executionId === 0 || end.executionId === executionId);
    if (isWithin) {
      this.#deleteUpTo.run(instanceKey, executionId, end.executionId, end.eventId);
      this.#shorten.run(max, instanceKey, executionId);
      return max;
    }
    // The history is shorter than its entry states.
    this.#remove.run(JSON.stringify([[instanceKey, executionId]]));
    return executionId === 0
      ? this.#deleteInstances.run(JSON.stringify([instanceKey]))
      : this.#deleteExecutions.run(JSON.stringify([[instanceKey, executionId]]));
  }
}

/** Deletes events and their large payloads. */
class EventDeletion<Values extends (string | number)[]> {
  readonly #events: Database.Statement<Values>;
  readonly #payloads: Database.Statement<Values>;

  constructor(db: Database.Database, condition: string) {
    this.#events = db.prepare(`DELETE FROM history WHERE ${condition}`);
    this.#payloads = db.prepare(`DELETE FROM large_payloads WHERE ${condition}`);
  }

  /** Returns the number of deleted events. */
  run(...values: Values): number {
    this.#payloads.run(...values);
    return this.#events.run(...values).changes;
  }
}
