import type Database from 'better-sqlite3';
import type { StoredMessage } from '../../../model/message.ts';
import type { FetchedMessage } from '../../contract/orchestration-queue.ts';

interface VisibleMessage extends FetchedMessage {
  readonly instanceKey: number;
}

/** The rows of `orchestrator_queue`. The caller of `insert` also updates the row in `instance_locks`. */
export class Messages {
  readonly #insert;
  readonly #selectVisible;
  readonly #selectVisibleOfAll;
  readonly #firstVisibleAt;
  readonly #nextVisibleAt;
  readonly #count;
  readonly #countOfKind;
  readonly #deleteOne;
  readonly #deleteMany;
  readonly #deleteTimers;
  readonly #selectCleanupExpired;
  readonly #selectStart;
  readonly #deleteOfExecutions;
  readonly #deleteAll;
  readonly #deleteOf;
  readonly #showHidden;

  constructor(db: Database.Database) {
    this.#insert = db.prepare<
      [number, number, string, number | null, number | null, string, string | null]
    >(
      `INSERT INTO orchestrator_queue (instance_key, visible_at, kind, execution_id, operation, data, payload)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
    );
    // In order of visibility: timers by their time, other messages as enqueued.
    this.#selectVisible = db.prepare<[number, number, number], FetchedMessage>(
      `SELECT message_key AS messageKey, kind, execution_id AS executionId, operation, data, payload
       FROM orchestrator_queue WHERE instance_key = ? AND visible_at <= ?
       ORDER BY visible_at, message_key LIMIT +?`,
    );
    this.#selectVisibleOfAll = db.prepare<[string, number, number], VisibleMessage>(
      `SELECT instance_key AS instanceKey, message_key AS messageKey, kind, execution_id AS executionId,
              operation, data, payload
       FROM orchestrator_queue WHERE instance_key IN (SELECT value FROM json_each(?)) AND visible_at <= ?
       ORDER BY instance_key, visible_at, message_key LIMIT +?`,
    );
    this.#firstVisibleAt = db
      .prepare<[number], number | null>(
        'SELECT min(visible_at) FROM orchestrator_queue WHERE instance_key = ?',
      )
      .pluck();
    this.#nextVisibleAt = db
      .prepare<[number, number], number | null>(
        'SELECT min(visible_at) FROM orchestrator_queue WHERE instance_key = ? AND visible_at > ?',
      )
      .pluck();
    this.#count = db
      .prepare<[number, number], number>(
        'SELECT count(*) FROM (SELECT 1 FROM orchestrator_queue WHERE instance_key = ? LIMIT +?)',
      )
      .pluck();
    this.#countOfKind = db
      .prepare<[number, string, number], number>(
        'SELECT count(*) FROM (SELECT 1 FROM orchestrator_queue WHERE instance_key = ? AND kind = ? LIMIT +?)',
      )
      .pluck();
    this.#deleteOne = db.prepare<[number, number]>(
      'DELETE FROM orchestrator_queue WHERE message_key = ? AND instance_key = ?',
    );
    // The plus makes the planner search by key, not through all messages of the instance.
    this.#deleteMany = db.prepare<[string, number]>(
      `DELETE FROM orchestrator_queue
       WHERE message_key IN (SELECT value FROM json_each(?)) AND +instance_key = ?`,
    );
    this.#deleteTimers = db.prepare<[number, number, string]>(
      `DELETE FROM orchestrator_queue
       WHERE instance_key = ? AND execution_id = ? AND kind = 'timerFired'
         AND operation IN (SELECT value FROM json_each(?))`,
    );
    this.#selectCleanupExpired = db.prepare<[number, number], FetchedMessage>(
      `SELECT message_key AS messageKey, kind, execution_id AS executionId, operation, data, payload
       FROM orchestrator_queue
       WHERE instance_key = ? AND visible_at <= ? AND kind = 'cleanupExpired' LIMIT 1`,
    );
    this.#selectStart = db.prepare<[number], FetchedMessage>(
      `SELECT message_key AS messageKey, kind, execution_id AS executionId, operation, data, payload
       FROM orchestrator_queue WHERE instance_key = ? AND kind = 'start' LIMIT 1`,
    );
    this.#deleteOfExecutions = db.prepare<[number, number]>(
      'DELETE FROM orchestrator_queue WHERE instance_key = ? AND execution_id <= ?',
    );
    this.#deleteAll = db.prepare<[number]>('DELETE FROM orchestrator_queue WHERE instance_key = ?');
    this.#deleteOf = db.prepare<[string]>(
      'DELETE FROM orchestrator_queue WHERE instance_key IN (SELECT value FROM json_each(?))',
    );
    // Reads all messages, 100,000 in 17 ms: a clock is rarely set back, and an index would cost every insert.
    this.#showHidden = db
      .prepare<[{ now: number }], number>(
        `UPDATE orchestrator_queue SET visible_at = :now
         WHERE visible_at > :now AND kind NOT IN ('timerFired', 'cleanupExpired')
           AND NOT EXISTS (SELECT 1 FROM instances AS receiver
             WHERE receiver.instance_key = orchestrator_queue.instance_key
               AND status = 'pending' AND run_at > :now)
         RETURNING instance_key`,
      )
      .pluck();
  }

  /**
   * Makes messages visible that a clock set back has hidden. Messages with a time of their own keep it.
   * Returns the keys of their instances.
   */
  showHidden(now: number): ReadonlySet<number> {
    return new Set(this.#showHidden.all({ now }));
  }

  insert(instanceKey: number, message: StoredMessage, visibleAt: number): void {
    const { kind, executionId, operation, data, payload } = message;
    this.#insert.run(instanceKey, visibleAt, kind, executionId, operation, data, payload);
  }

  readVisible(instanceKey: number, now: number, max: number): readonly FetchedMessage[] {
    return this.#selectVisible.all(instanceKey, now, max);
  }

  /** The visible messages by instance, or `undefined` if there are `max` or more in total. */
  readVisibleOfAll(
    instanceKeys: readonly number[],
    now: number,
    max: number,
  ): ReadonlyMap<number, readonly FetchedMessage[]> | undefined {
    const rows = this.#selectVisibleOfAll.all(JSON.stringify(instanceKeys), now, max);
    if (rows.length === max) return undefined;
    const byInstance = new Map<number, FetchedMessage[]>();
    for (const { instanceKey, messageKey, kind, executionId, operation, data, payload } of rows) {
      const message = { messageKey, kind, executionId, operation, data, payload };
      const known = byInstance.get(instanceKey);
      if (known === undefined) byInstance.set(instanceKey, [message]);
      else known.push(message);
    }
    return byInstance;
  }

  /** The due `cleanupExpired` message of an instance. Thousands of messages may precede it. */
  readCleanupExpired(instanceKey: number, now: number): FetchedMessage | undefined {
    return this.#selectCleanupExpired.get(instanceKey, now);
  }

  /** The start message of an execution, visible or not. */
  readStart(instanceKey: number): FetchedMessage | undefined {
    return this.#selectStart.get(instanceKey);
  }

  /** The earliest `visible_at` of an instance's messages, or `null`. */
  firstVisibleAt(instanceKey: number): number | null {
    return this.#firstVisibleAt.get(instanceKey) ?? null;
  }

  /** When the next hidden message of an instance becomes visible, or `null`. */
  nextVisibleAt(instanceKey: number, now: number): number | null {
    return this.#nextVisibleAt.get(instanceKey, now) ?? null;
  }

  /** Whether at least `max` messages of a kind are queued. */
  isFull(instanceKey: number, kind: string, max: number): boolean {
    // The first count reads only the index, and usually decides.
    return (
      this.#count.get(instanceKey, max) === max &&
      this.#countOfKind.get(instanceKey, kind, max) === max
    );
  }

  delete(instanceKey: number, messageKeys: readonly number[]): void {
    // For more than about ten keys one statement is faster.
    if (messageKeys.length > 10) this.#deleteMany.run(JSON.stringify(messageKeys), instanceKey);
    else for (const messageKey of messageKeys) this.#deleteOne.run(messageKey, instanceKey);
  }

  deleteTimers(instanceKey: number, executionId: number, operations: readonly number[]): void {
    if (operations.length === 0) return;
    this.#deleteTimers.run(instanceKey, executionId, JSON.stringify(operations));
  }

  /** Deletes timers and completions up to an execution. External events belong to no execution and stay. */
  deleteOfExecutions(instanceKey: number, upToExecutionId: number): void {
    this.#deleteOfExecutions.run(instanceKey, upToExecutionId);
  }

  deleteAll(instanceKey: number): void {
    this.#deleteAll.run(instanceKey);
  }

  /** Deletes all messages of several instances. */
  deleteOf(instanceKeys: readonly number[]): void {
    const [first, second] = instanceKeys;
    if (first !== undefined && second === undefined) this.#deleteAll.run(first);
    else this.#deleteOf.run(JSON.stringify(instanceKeys));
  }
}
