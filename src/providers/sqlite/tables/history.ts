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

// A row of a table without rowids that is larger than 1,002 bytes takes a page of its own.
const maxInlineLength = 768;

/** Whether a payload is stored in `large_payloads`. */
export function isLarge(payload: string | null): payload is string {
  return payload !== null && payload.length > maxInlineLength;
}

/** The position of the first event with this payload, under which it is stored. -1: none. */
export function payloadPosition(events: readonly StoredEvent[], payload: string): number {
  return events.findIndex((event) => event.payload === payload);
}

/** SQL of a large payload, or of an expression of it. `row` has the keys and `payload_event`. */
export function largePayload(row: string, expression = 'large.payload'): string {
  return `(SELECT ${expression} FROM large_payloads AS large WHERE large.instance_key = ${row}.instance_key
    AND large.execution_id = ${row}.execution_id AND large.event_id = ${row}.payload_event)`;
}

/** SQL of the payload of an event. */
export function eventPayload(row = 'history'): string {
  return `iif(${row}.payload_event IS NULL, ${row}.payload, ${largePayload(row)})`;
}

/** The rows of `history`: the events of all executions, with dense ids. */
export class History {
  readonly #insert: BulkInsert<EventRow>;
  readonly #insertReference;
  readonly #insertLarge;
  readonly #select;
  readonly #timeOf;

  constructor(db: Database.Database) {
    const insert =
      'INSERT INTO history (instance_key, execution_id, event_id, kind, at, data, payload)';
    this.#insert = new BulkInsert(db, insert, 7);
    this.#insertReference = db.prepare<[number, number, number, string, number, string, number]>(
      `INSERT INTO history (instance_key, execution_id, event_id, kind, at, data, payload_event)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#insertLarge = db.prepare<[number, number, number, string]>(
      'INSERT INTO large_payloads (instance_key, execution_id, event_id, payload) VALUES (?, ?, ?, ?)',
    );
    // Hides events of deleted executions that are not reclaimed yet.
    this.#select = db.prepare<[HistoryRange], StoredEvent>(
      `SELECT kind, at, data, ${eventPayload()} AS payload FROM history
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

  /** Inserts an event with a large payload. The payload is inserted too, unless an earlier event of the turn has it. */
  insertLarge(row: EventRow, payloadEvent: number): void {
    const [instanceKey, executionId, eventId, kind, at, data, payload] = row;
    this.#insertReference.run(instanceKey, executionId, eventId, kind, at, data, payloadEvent);
    if (payload !== null && payloadEvent === eventId)
      this.#insertLarge.run(instanceKey, executionId, eventId, payload);
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
