import type Database from 'better-sqlite3';
import type { StoredEvent } from '../../../model/event.ts';
import { bytesOfTexts, takeWithin, type Withheld } from '../../contract/page-bytes.ts';

/** A row of `history`: instance key, execution id, event id, kind, time, data, payload. */
export type EventRow = readonly [number, number, number, string, number, string, string | null];

interface HistoryRange {
  readonly instanceKey: number;
  readonly executionId: number;
  readonly after: number;
  readonly limit: number;
}

/** The rows of `history`: the events of all executions, with dense ids. */
export class History {
  readonly #insert: BulkInsert<EventRow>;
  readonly #select;
  readonly #timeOf;

  constructor(db: Database.Database) {
    const insert =
      'INSERT INTO history (instance_key, execution_id, event_id, kind, at, data, payload)';
    this.#insert = new BulkInsert(db, insert, 7);
    // Hides events of deleted executions that are not reclaimed yet.
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

  /** The time of an event, or 0 if it does not exist. */
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
    // Row by row, so that rows above the limit are not read.
    const { rows, withheld } = takeWithin(this.#select.iterate(range), {
      maxBytes,
      bytesOf: ({ data, payload }) => bytesOfTexts(data, payload),
    });
    if (withheld === undefined) return rows;
    return [...rows, { ...withheld, data: '', payload: null, withheld: true }];
  }
}

type Value = string | number | null;

// With events of 100 bytes, a multi-row statement takes two thirds of the time of single inserts.
const rowsAtOnce = [500, 20];

/** Inserts rows with multi-row statements. */
export class BulkInsert<Row extends readonly Value[]> {
  readonly #one: Database.Statement<Value[]>;
  readonly #prepareMany: (rows: number) => Database.Statement<Value[]>;
  readonly #many = new Map<number, Database.Statement<Value[]>>();

  constructor(db: Database.Database, insert: string, columns: number) {
    const row = `(${Array(columns).fill('?').join(', ')})`;
    this.#one = db.prepare(`${insert} VALUES ${row}`);
    this.#prepareMany = (rows) =>
      db.prepare(`${insert} VALUES ${Array(rows).fill(row).join(', ')}`);
  }

  run(rows: readonly Row[]): void {
    let done = 0;
    for (const size of rowsAtOnce) {
      for (; rows.length - done >= size; done += size) {
        this.#statement(size).run(...rows.slice(done, done + size).flat());
      }
    }
    for (const row of rows.slice(done)) this.#one.run(...row);
  }

  #statement(rows: number): Database.Statement<Value[]> {
    const known = this.#many.get(rows);
    if (known !== undefined) return known;
    const statement = this.#prepareMany(rows);
    this.#many.set(rows, statement);
    return statement;
  }
}
