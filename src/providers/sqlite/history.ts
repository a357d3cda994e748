import type Database from 'better-sqlite3';
import type { StoredEvent } from '../../model/event.ts';

/** The rows of `history`: the events of every execution, by their dense ids. */
export class History {
  readonly #insert;
  readonly #select;

  constructor(db: Database.Database) {
    this.#insert = db.prepare<[number, number, number, string, number, string, string | null]>(
      `INSERT INTO history (instance_key, execution_id, event_id, kind, at, data, payload)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#select = db.prepare<[number, number, number, number], StoredEvent>(
      `SELECT kind, at, data, payload FROM history
       WHERE instance_key = ? AND execution_id = ? AND event_id > ?
       ORDER BY event_id LIMIT ?`,
    );
  }

  append(options: {
    readonly instanceKey: number;
    readonly executionId: number;
    readonly firstEventId: number;
    readonly events: readonly StoredEvent[];
  }): void {
    const { instanceKey, executionId, events } = options;
    let eventId = options.firstEventId;
    for (const { kind, at, data, payload } of events) {
      this.#insert.run(instanceKey, executionId, eventId, kind, at, data, payload);
      eventId += 1;
    }
  }

  read(options: {
    readonly instanceKey: number;
    readonly executionId: number;
    readonly after: number;
    readonly limit?: number | undefined;
  }): readonly StoredEvent[] {
    const { instanceKey, executionId, after, limit = -1 } = options;
    return this.#select.all(instanceKey, executionId, after, limit);
  }
}
