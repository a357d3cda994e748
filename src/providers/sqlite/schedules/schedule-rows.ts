import type Database from 'better-sqlite3';
import { bytesOfTexts, takeWithin } from '../../contract/page-bytes.ts';
import type {
  PlannedSchedule,
  ScheduleRecord,
  ScheduleTick,
  WhileRunning,
} from '../../contract/schedules.ts';
import { maxWaitsFor, readRunIds, readTicks, toStoredList } from '../../rules/schedule-runs.ts';
import { randomInteger } from '../../../model/values/random-id.ts';

type Row = Omit<ScheduleRecord, 'paused' | 'runIds' | 'bufferedTicks'> & {
  readonly paused: 0 | 1;
  readonly runIds: string | null;
  readonly bufferedTicks: string | null;
};

const columns = `name, definition, revision, paused, next_at AS nextAt, last_tick_at AS lastTickAt,
  last_instance_id AS lastInstanceId, last_error AS lastError, run_ids AS runIds,
  buffered_ticks AS bufferedTicks, skipped_ticks AS skippedTicks, created_at AS createdAt, updated_at AS updatedAt`;

/** The values that a tick leaves in its schedule. */
interface Moved extends Pick<WhileRunning, 'bufferedTicks' | 'skipped'> {
  readonly runIds: readonly string[];
  readonly instanceId: string | null;
  readonly error: string | null;
  readonly now: number;
}

/** The rows of `schedules`. */
export class ScheduleRows {
  readonly #select;
  readonly #insert;
  readonly #update;
  readonly #setPaused;
  readonly #delete;
  readonly #selectDue;
  readonly #selectBuffered;
  readonly #selectLive;
  readonly #selectPage;
  readonly #setRuns;
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
    this.#selectBuffered = db.prepare<[], Row>(
      `SELECT ${columns} FROM schedules WHERE paused = 0 AND buffered_ticks IS NOT NULL AND name >= ''
       ORDER BY name`,
    );
    this.#selectLive = db
      .prepare<[string], string>(
        `SELECT instance_id FROM instances
         WHERE instance_id IN (SELECT value FROM json_each(?)) AND ended_at IS NULL`,
      )
      .pluck();
    this.#setRuns = db.prepare<[string | null, string | null, string]>(
      `UPDATE schedules SET run_ids = ?, last_instance_id = coalesce(?, last_instance_id) WHERE name = ?`,
    );
    this.#selectPage = db.prepare<[string, number], Row>(
      `SELECT ${columns} FROM schedules WHERE name > ? ORDER BY name LIMIT +?`,
    );
    this.#move = db.prepare<[ReturnType<typeof toMove>]>(
      `UPDATE schedules
       SET next_at = :nextAt, last_tick_at = :lastTickAt, last_error = :error, run_ids = :runIds,
           last_instance_id = coalesce(:instanceId, last_instance_id), buffered_ticks = :bufferedTicks,
           skipped_ticks = skipped_ticks + :skipped, updated_at = :now, revision = revision + 1
       WHERE name = :name AND revision = :revision AND paused = 0`,
    );
  }

  get(name: string): ScheduleRecord | undefined {
    const row = this.#select.get(name);
    return row === undefined ? undefined : toRecord(row);
  }

  /** Creates or updates a schedule. Returns `undefined` if `ifRevision` does not match. */
  put(write: PlannedSchedule, now: number): ScheduleRecord | undefined {
    const { name, definition, nextAt, ifRevision } = write;
    const existing = this.#select.get(name);
    if (ifRevision !== undefined && ifRevision !== (existing?.revision ?? 0)) return undefined;
    if (existing !== undefined) this.#update.run(definition, nextAt, now, name);
    // A random first revision: a tick of a deleted schedule never matches a new one of the same name.
    else this.#insert.run(name, definition, randomInteger(1, 2 ** 47), nextAt, now, now);
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

  /** The schedules that fire next, earliest first. */
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

  /**
   * The schedules whose buffered ticks can start, at most `max`, except those that are due anyway; and the runs that the
   * others wait for.
   */
  selectBuffered(
    max: number,
    due: readonly ScheduleRecord[],
  ): { readonly ready: readonly ScheduleRecord[]; readonly waitsFor: readonly string[] } {
    const ready: ScheduleRecord[] = [];
    const waitsFor: string[] = [];
    for (const record of this.#selectBuffered.all().map(toRecord)) {
      const live = this.selectLive(record.runIds);
      const isDue = due.some(({ name }) => name === record.name);
      if (live.length > 0) waitsFor.push(...live);
      else if (!isDue && ready.length < max) ready.push(record);
    }
    return { ready, waitsFor: waitsFor.slice(0, maxWaitsFor) };
  }

  /** Those of the runs that have not ended. */
  selectLive(runIds: readonly string[]): readonly string[] {
    return runIds.length === 0 ? [] : this.#selectLive.all(JSON.stringify(runIds));
  }

  /** Sets the runs that a schedule remembers. */
  setRuns(name: string, runIds: readonly string[], lastInstanceId: string | null): void {
    this.#setRuns.run(toStoredList(runIds), lastInstanceId, name);
  }

  /** Advances a schedule after a tick. Returns `false` if it is paused, deleted or changed. */
  move(tick: ScheduleTick, moved: Moved): boolean {
    return this.#move.run(toMove(tick, moved)).changes === 1;
  }
}

function toMove({ name, revision, nextAt, lastTickAt }: ScheduleTick, moved: Moved) {
  const { runIds, bufferedTicks, ...rest } = moved;
  return {
    name,
    revision,
    nextAt,
    lastTickAt,
    ...rest,
    runIds: toStoredList(runIds),
    bufferedTicks: toStoredList(bufferedTicks),
  };
}

function toRecord({ paused, runIds, bufferedTicks, ...row }: Row): ScheduleRecord {
  return {
    ...row,
    paused: paused === 1,
    runIds: readRunIds(runIds),
    bufferedTicks: readTicks(bufferedTicks),
  };
}
