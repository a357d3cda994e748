import { randomInt } from 'node:crypto';
import type { PlannedSchedule, ScheduleRecord, ScheduleTick } from '../../contract/schedules.ts';
import { numbers, text, texts } from '../driver/arrays.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import { placeOf } from '../driver/columns.ts';
import { nowSql } from '../driver/scope.ts';

/** How a schedule goes on from a tick. */
export interface ScheduleMove {
  readonly tick: ScheduleTick;
  readonly instanceId: string | null;
  readonly error: string | null;
}

const columns = `name, definition, revision, paused, next_at AS "nextAt", last_tick_at AS "lastTickAt",
  last_instance_id AS "lastInstanceId", last_error AS "lastError", created_at AS "createdAt",
  updated_at AS "updatedAt"`;

/** The rows of `schedules`. */
export class ScheduleRows {
  readonly #put: Statement;
  readonly #insert: Statement;
  readonly #update: Statement;
  readonly #setPaused: Statement;
  readonly #delete: Statement;
  readonly #selectNext: Statement;
  readonly #selectPage: Statement;
  readonly #selectWithin: Statement;
  readonly #selectNamed: Statement;
  readonly #lock: Statement;
  readonly #move: Statement;

  constructor(schema: string) {
    const table = `${schema}.schedules`;
    const insert = `INSERT INTO ${table} AS schedule (name, definition, revision, next_at, created_at, updated_at)
      VALUES ($2, $3, $4::bigint, $5::bigint, ${nowSql}, ${nowSql})`;
    const changes = `definition = $3, next_at = $5::bigint, updated_at = ${nowSql}, revision = schedule.revision + 1`;
    this.#put = {
      name: 'perdure_put_schedule',
      text: `${insert} ON CONFLICT (name) DO UPDATE SET ${changes} RETURNING ${columns}`,
    };
    this.#insert = {
      name: 'perdure_insert_schedule',
      text: `${insert} ON CONFLICT (name) DO NOTHING RETURNING ${columns}`,
    };
    this.#update = {
      name: 'perdure_update_schedule',
      text: `UPDATE ${table} AS schedule SET ${changes} WHERE name = $2 AND revision = $4::bigint RETURNING ${columns}`,
    };
    this.#setPaused = {
      name: 'perdure_pause_schedule',
      text: `UPDATE ${table}
        SET paused = $3, next_at = CASE WHEN $4 THEN $5::bigint ELSE next_at END, updated_at = ${nowSql},
            revision = revision + 1
        WHERE name = $2 AND revision = coalesce($6::bigint, revision)`,
    };
    this.#delete = {
      name: 'perdure_delete_schedule',
      text: `DELETE FROM ${table} WHERE name = $1`,
    };
    this.#selectNext = {
      name: 'perdure_next_schedules',
      text: `SELECT ${nowSql} AS "now", next.* FROM (VALUES (1)) AS one (row) LEFT JOIN LATERAL (
          SELECT ${columns} FROM ${table} WHERE NOT paused AND next_at IS NOT NULL
          ORDER BY next_at, name LIMIT $2::bigint) AS next ON TRUE`,
    };
    this.#selectPage = {
      name: 'perdure_list_schedules',
      text: `SELECT ${columns} FROM ${table} WHERE name > $1 ORDER BY name LIMIT $2::bigint`,
    };
    // Sizes first: what does not fit is never read.
    const isWithheld = 'coalesce(name = (SELECT name FROM cut), FALSE)';
    const within = columns.replace(
      'definition',
      `CASE WHEN ${isWithheld} THEN '' ELSE definition END AS definition`,
    );
    this.#selectWithin = {
      name: 'perdure_list_schedules_within',
      text: `WITH sized AS MATERIALIZED (
          SELECT name, bytes, sum(bytes) OVER (ORDER BY name) AS total FROM (
            SELECT name, octet_length(definition) AS bytes FROM ${table} WHERE name > $1
            ORDER BY name LIMIT $2::bigint) AS page),
        cut AS MATERIALIZED (
          SELECT name FROM sized WHERE total > $3::bigint AND total > bytes ORDER BY name LIMIT 1)
        SELECT ${within}, ${isWithheld} AS "isWithheld" FROM ${table}
        WHERE name = ANY (ARRAY(SELECT name FROM sized WHERE name <= coalesce((SELECT name FROM cut), name)))
        ORDER BY name`,
    };
    this.#selectNamed = {
      name: 'perdure_list_named_schedules',
      text: `SELECT ${columns} FROM ${table} WHERE name = ANY ($3::text[]) AND name > $1 ORDER BY name LIMIT $2::bigint`,
    };
    this.#lock = {
      name: 'perdure_lock_schedules',
      text: `SELECT name, revision, paused FROM ${table} WHERE name = ANY ($1::text[]) ORDER BY name FOR UPDATE`,
    };
    this.#move = {
      name: 'perdure_move_schedules',
      text: `UPDATE ${table} AS schedule
        SET next_at = tick.next_at, last_tick_at = tick.last_tick_at,
            last_instance_id = coalesce(tick.instance_id, last_instance_id), last_error = tick.error,
            updated_at = $6::bigint, revision = schedule.revision + 1
        FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::text[])
          AS tick (name, next_at, last_tick_at, instance_id, error)
        ${placeOf(table, 'one.name = tick.name')}
        WHERE schedule.ctid = found.place`,
    };
  }

  /** Creates or changes a schedule; `undefined` when it does not have the revision that is asked for. */
  async put(
    tx: Transaction,
    { name, definition, nextAt, ifRevision }: PlannedSchedule,
    nowParameter: number | null,
  ): Promise<ScheduleRecord | undefined> {
    const statement =
      ifRevision === undefined ? this.#put : ifRevision === 0 ? this.#insert : this.#update;
    // From anywhere: a tick of a schedule that was deleted never fits one that has its name now.
    const revision = statement === this.#update ? (ifRevision ?? null) : randomInt(1, 2 ** 47);
    const [record] = await tx.query<ScheduleRecord>(statement, [
      nowParameter,
      text(name),
      text(definition),
      revision,
      nextAt,
    ]);
    return record;
  }

  async setPaused(
    tx: Transaction,
    options: {
      readonly name: string;
      readonly paused: boolean;
      readonly nextAt: number | null | undefined;
      readonly ifRevision: number | undefined;
    },
    nowParameter: number | null,
  ): Promise<boolean> {
    const { name, paused, nextAt, ifRevision = null } = options;
    const isMoved = nextAt !== undefined;
    const values = [nowParameter, text(name), paused, isMoved, nextAt ?? null, ifRevision];
    return (await tx.execute(this.#setPaused, values)) === 1;
  }

  async delete(tx: Transaction, name: string): Promise<boolean> {
    return (await tx.execute(this.#delete, [text(name)])) === 1;
  }

  /** Those that fire next, the first first, and what the clock says. */
  async selectNext(
    tx: Transaction,
    max: number,
    nowParameter: number | null,
  ): Promise<{ readonly nowMs: number; readonly next: readonly ScheduleRecord[] }> {
    const rows = await tx.query<
      Omit<ScheduleRecord, 'name'> & { readonly now: number; readonly name: string | null }
    >(this.#selectNext, [nowParameter, max]);
    const nowMs = rows[0]?.now ?? Number.NaN;
    const next = rows.flatMap(({ now: _now, name, ...row }) =>
      name === null ? [] : { ...row, name },
    );
    return { nowMs, next };
  }

  list(
    tx: Transaction,
    params: {
      readonly limit: number;
      readonly afterName: string;
      readonly names: readonly string[] | undefined;
    },
  ): Promise<readonly ScheduleRecord[]> {
    const { limit, afterName, names } = params;
    const page = [text(afterName), Math.max(limit, 0)];
    return names === undefined
      ? tx.query<ScheduleRecord>(this.#selectPage, page)
      : tx.query<ScheduleRecord>(this.#selectNamed, [...page, texts(names)]);
  }

  /** A page, as far as it fits. */
  async listWithin(
    tx: Transaction,
    page: { readonly limit: number; readonly afterName: string; readonly maxBytes: number },
  ): Promise<readonly ScheduleRecord[]> {
    const { limit, afterName, maxBytes } = page;
    const values = [text(afterName), Math.max(limit, 0), Math.max(Math.floor(maxBytes), 0)];
    const rows = await tx.query<ScheduleRecord & { readonly isWithheld: boolean }>(
      this.#selectWithin,
      values,
    );
    return rows.map(({ isWithheld, ...row }) => (isWithheld ? { ...row, withheld: true } : row));
  }

  /** Locks schedules by their names. */
  lock(
    tx: Transaction,
    names: readonly string[],
  ): Promise<readonly Pick<ScheduleRecord, 'name' | 'revision' | 'paused'>[]> {
    return tx.query(this.#lock, [texts(names)]);
  }

  /** Moves schedules that are locked on from their ticks; one tick for each. */
  async move(tx: Transaction, moves: readonly ScheduleMove[], now: number): Promise<void> {
    if (moves.length === 0) return;
    await tx.execute(this.#move, [
      texts(moves.map(({ tick }) => tick.name)),
      numbers(moves.map(({ tick }) => tick.nextAt)),
      numbers(moves.map(({ tick }) => tick.lastTickAt)),
      texts(moves.map(({ instanceId }) => instanceId)),
      texts(moves.map(({ error }) => error)),
      now,
    ]);
  }
}
