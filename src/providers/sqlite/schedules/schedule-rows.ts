import { randomInt } from 'node:crypto';
import type Database from 'better-sqlite3';
import { bytesOfTexts, takeWithin } from '../../contract/page-bytes.ts';
import type { PlannedSchedule, ScheduleRecord, ScheduleTick } from '../../contract/schedules.ts';

type Row = Omit<ScheduleRecord, 'paused'> & { readonly paused: 0 | 1 };

const columns = `name, definition, revision, paused, next_at AS nextAt, last_tick_at AS lastTickAt,
  last_instance_id AS lastInstanceId, last_error AS lastError, created_at AS createdAt, updated_at AS updatedAt`;

/** The rows of `schedules`. */
export class ScheduleRows {
  readonly #select;
  readonly #insert;
  readonly #update;
  readonly #setPaused;
  readonly #delete;
  readonly #selectDue;
  readonly #selectPage;
  readonly #move;

  constructor(db: Database.Database) {
    this.#select = db.prepare<[string], Row>(`SELECT ${columns} FROM schedules WHERE name = ?`);
    this.#insert = db.prepare<[string, string, number, number | null, number, number]>(
      `INSERT INTO schedules (name, definition, revision, next_at, created_at, updated_at)
       VALUES (?, ?, ?, ?, ?, ?)`,
    );
    this.#update = db.prepare<[string, number | null, number, string]>(
      `UPDATE schedules SET definition = ?, next_at = ?, updated_at = ?, revision = revision + 1
       WHERE name = ?`,
    );
    this.#setPaused = db.prepare<[0 | 1, 0 | 1, number | null, number, string, number | null]>(
      `UPDATE schedules SET paused = ?, next_at = iif(?, ?, next_at), updated_at = ?, revision = revision + 1
       WHERE name = ? AND revision = coalesce(?, revision)`,
    );
    this.#delete = db.prepare<[string]>('DELETE FROM schedules WHERE name = ?');
    this.#selectDue = db.prepare<[number], Row>(
      `SELECT ${columns} FROM schedules WHERE paused = 0 AND next_at IS NOT NULL
       ORDER BY next_at, name LIMIT +?`,
    );
    this.#selectPage = db.prepare<[string, number], Row>(
      `SELECT ${columns} FROM schedules WHERE name > ? ORDER BY name LIMIT +?`,
    );
    this.#move = db.prepare<
      [number | null, number, string | null, string | null, number, string, number]
    >(
      `UPDATE schedules
       SET next_at = ?, last_tick_at = ?, last_instance_id = coalesce(?, last_instance_id), last_error = ?,
           updated_at = ?, revision = revision + 1
       WHERE name = ? AND revision = ? AND paused = 0`,
    );
  }

  get(name: string): ScheduleRecord | undefined {
    const row = this.#select.get(name);
    return row === undefined ? undefined : toRecord(row);
  }

  /** Creates or changes a schedule; `undefined` when it does not have the revision that is asked for. */
  put(write: PlannedSchedule, now: number): ScheduleRecord | undefined {
    const { name, definition, nextAt, ifRevision } = write;
    const existing = this.#select.get(name);
    if (ifRevision !== undefined && ifRevision !== (existing?.revision ?? 0)) return undefined;
    if (existing !== undefined) this.#update.run(definition, nextAt, now, name);
    // From anywhere: a tick of a schedule that was deleted never fits one that has its name now.
    else this.#insert.run(name, definition, randomInt(1, 2 ** 47), nextAt, now, now);
    return this.get(name);
  }

  setPaused(options: {
    readonly name: string;
    readonly nextAt?: number | null | undefined;
    readonly ifRevision?: number | undefined;
    readonly paused: boolean;
    readonly now: number;
  }): boolean {
    const { name, paused, nextAt, ifRevision = null, now } = options;
    const { changes } = this.#setPaused.run(
      paused ? 1 : 0,
      nextAt === undefined ? 0 : 1,
      nextAt ?? null,
      now,
      name,
      ifRevision,
    );
    return changes === 1;
  }

  delete(name: string): boolean {
    return this.#delete.run(name).changes === 1;
  }

  /** Those that fire next, the first first. */
  selectNext(max: number): readonly ScheduleRecord[] {
    return this.#selectDue.all(max).map(toRecord);
  }

  listAfter(
    afterName: string,
    limit: number,
    maxBytes = Number.POSITIVE_INFINITY,
  ): readonly ScheduleRecord[] {
    const { rows, withheld } = takeWithin(this.#selectPage.iterate(afterName, Math.max(limit, 0)), {
      maxBytes,
      bytesOf: ({ definition }) => bytesOfTexts(definition),
    });
    const records = rows.map(toRecord);
    if (withheld === undefined) return records;
    return [...records, { ...toRecord(withheld), definition: '', withheld: true }];
  }

  /** Moves a schedule on from a tick; `false` when it is paused, gone, or another. */
  move(
    tick: ScheduleTick,
    how: {
      readonly instanceId: string | null;
      readonly error: string | null;
      readonly now: number;
    },
  ): boolean {
    const { name, revision, nextAt, lastTickAt } = tick;
    const { instanceId, error, now } = how;
    const { changes } = this.#move.run(nextAt, lastTickAt, instanceId, error, now, name, revision);
    return changes === 1;
  }
}

function toRecord({ paused, ...row }: Row): ScheduleRecord {
  return { ...row, paused: paused === 1 };
}
