import type Database from 'better-sqlite3';

/** The operation of the item that is a task run, and of its handler for failure. */
export const taskOperation = 1;
export const onFailOperation = 2;

/** The item of a task run that was to have started by now. */
export interface ExpiredItem {
  readonly itemKey: number;
  readonly instanceKey: number;
  readonly definitionKey: number;
}

/** The item of a task run, or of its handler for failure. */
interface TaskItem {
  readonly instanceKey: number;
  readonly operation: number;
  readonly definitionKey: number;
  readonly priority: number;
  readonly nextAt: number;
  readonly expiresAt: number | null;
  readonly options: string | null;
  readonly now: number;
}

/** The rows of `worker_queue` that are task runs, as far as they differ from activities. */
export class TaskItems {
  readonly #insert;
  readonly #setExpiry;
  readonly #selectExpired;
  readonly #selectInstance;

  constructor(db: Database.Database) {
    // The input stays with the run: it is there for operators and for the handler of its failure.
    this.#insert = db.prepare<
      [number, number, number, number, number, number | null, number, string | null]
    >(
      `INSERT INTO worker_queue (instance_key, execution_id, operation, definition_key, priority, next_at, expires_at,
                                 claims, failures, created_at, options)
       VALUES (?, 1, ?, ?, ?, ?, ?, 0, 0, ?, ?)`,
    );
    this.#setExpiry = db.prepare<[number, number]>(
      'UPDATE worker_queue SET expires_at = ? WHERE item_key = ?',
    );
    this.#selectExpired = db.prepare<[number, number], ExpiredItem>(
      `SELECT item_key AS itemKey, instance_key AS instanceKey, definition_key AS definitionKey FROM worker_queue
       WHERE expires_at <= ? ORDER BY expires_at LIMIT +?`,
    );
    this.#selectInstance = db
      .prepare<[number], number>('SELECT instance_key FROM worker_queue WHERE item_key = ?')
      .pluck();
  }

  /** Inserts the item of a task run, or of its handler for failure. */
  insert(item: TaskItem): void {
    this.#insert.run(
      item.instanceKey,
      item.operation,
      item.definitionKey,
      item.priority,
      item.nextAt,
      item.expiresAt,
      item.now,
      item.options,
    );
  }

  setExpiry(itemKey: number, expiresAt: number): void {
    this.#setExpiry.run(expiresAt, itemKey);
  }

  /** Items of task runs that were to have started by now, the longest overdue first. */
  selectExpired(now: number, max: number): readonly ExpiredItem[] {
    return this.#selectExpired.all(now, max);
  }

  instanceOf(itemKey: number): number | undefined {
    return this.#selectInstance.get(itemKey);
  }
}
