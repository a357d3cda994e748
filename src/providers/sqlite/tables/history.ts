import type Database from 'better-sqlite3';
import type { StoredEvent } from '../../../model/event.ts';
import { bytesOfTexts, takeWithin, type Withheld } from '../../contract/page-bytes.ts';
import { BulkInsert } from '../driver/bulk-insert.ts';

/** An event as a row: whose, of which execution, its id, and what a store keeps of it. */
export type EventRow = readonly [number, number, number, string, number, string, string | null];

interface HistoryRange {
  readonly instanceKey: number;
  readonly executionId: number;
  readonly after: number;
  readonly limit: number;
}

/** The rows of `history`: the events of every execution, by their dense ids. */
export class History {
  readonly #insert: BulkInsert<EventRow>;
  readonly #select;
  readonly #timeOf;

  constructor(db: Database.Database) {
    const insert =
      'INSERT INTO history (instance_key, execution_id, event_id, kind, at, data, payload)';
    this.#insert = new BulkInsert(db, insert, 7);
    // Also while the events of what is deleted are still to be taken away, nobody reads them.
    this.#select = db.prepare<[HistoryRange], StoredEvent>(
      `SELECT kind, at, data, payload FROM history
       WHERE instance_key = :instanceKey AND execution_id = :executionId AND event_id > :after
         AND (EXISTS (SELECT 1 FROM instances
                      WHERE instance_key = :instanceKey AND execution_id = :executionId)
              OR EXISTS (SELECT 1 FROM executions
                         WHERE instance_key = :instanceKey AND execution_id = :executionId))
       ORDER BY event_id LIMIT +:limit`,
    );
    this.#timeOf = db
      .prepare<[number, number, number], number>(
        'SELECT at FROM history WHERE instance_key = ? AND execution_id = ? AND event_id = ?',
      )
      .pluck();
  }

  insert(rows: readonly EventRow[]): void {
    this.#insert.run(rows);
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
    readonly maxBytes?: number | undefined;
  }): readonly (StoredEvent & Withheld)[] {
    const { instanceKey, executionId, after, limit = -1, maxBytes } = options;
    const range = { instanceKey, executionId, after, limit };
    if (maxBytes === undefined) return this.#select.all(range);
    // Row by row, so that what does not fit stays in the file.
    const { rows, withheld } = takeWithin(this.#select.iterate(range), {
      maxBytes,
      bytesOf: ({ data, payload }) => bytesOfTexts(data, payload),
    });
    if (withheld === undefined) return rows;
    return [...rows, { ...withheld, data: '', payload: null, withheld: true }];
  }
}
