import type Database from 'better-sqlite3';
import type { StoredEvent } from '../../model/event.ts';
import { BulkInsert } from './bulk-insert.ts';

type Row = readonly [number, number, number, string, number, string, string | null];

/** The rows of `history`: the events of every execution, by their dense ids. */
export class History {
  readonly #insert: BulkInsert<Row>;
  readonly #select;
  readonly #timeOf;

  constructor(db: Database.Database) {
    this.#insert = new BulkInsert(
      db,
      'INSERT INTO history (instance_key, execution_id, event_id, kind, at, data, payload)',
      7,
    );
    this.#select = db.prepare<[number, number, number, number], StoredEvent>(
      `SELECT kind, at, data, payload FROM history
       WHERE instance_key = ? AND execution_id = ? AND event_id > ?
       ORDER BY event_id LIMIT ?`,
    );
    this.#timeOf = db
      .prepare<[number, number, number], number>(
        'SELECT at FROM history WHERE instance_key = ? AND execution_id = ? AND event_id = ?',
      )
      .pluck();
  }

  append(options: {
    readonly instanceKey: number;
    readonly executionId: number;
    readonly firstEventId: number;
    readonly events: readonly StoredEvent[];
  }): void {
    const { instanceKey, executionId, firstEventId, events } = options;
    this.#insert.run(
      events.map(({ kind, at, data, payload }, index): Row => [
        instanceKey,
        executionId,
        firstEventId + index,
        kind,
        at,
        data,
        payload,
      ]),
    );
  }

  /** The time of an event; 0 when there is none. */
  timeOf(instanceKey: number, executionId: number, eventId: number): number {
    return this.#timeOf.get(instanceKey, executionId, eventId) ?? 0;
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
