import { randomInt } from 'node:crypto';
import type {
  PlannedSchedule,
  ScheduleRecord,
  ScheduleTick,
  WhileRunning,
} from '../../contract/schedules.ts';
import { maxWaitsFor, readRunIds, readTicks, toStoredList } from '../../rules/schedule-runs.ts';
import { one, prepare, rowsOf, strings, rowIdOf } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import { nowSql } from '../driver/scope.ts';

/** The next state of a schedule after a tick. */
interface ScheduleMove extends Pick<WhileRunning, 'bufferedTicks' | 'skipped'> {
  readonly tick: ScheduleTick;
  readonly runIds: readonly string[];
  /** The last run; `null` keeps the one before. */
  readonly instanceId: string | null;
}

/** A schedule as it is stored. */
type Row = Omit<ScheduleRecord, 'runIds' | 'bufferedTicks'> & {
  readonly runIds: string | null;
  readonly bufferedTicks: string | null;
};

function toRecord({ runIds, bufferedTicks, ...row }: Row): ScheduleRecord {
  return { ...row, runIds: readRunIds(runIds), bufferedTicks: readTicks(bufferedTicks) };
}

/** The columns that decide about a tick. */
type LockedSchedule = Pick<
  ScheduleRecord,
  'name' | 'revision' | 'paused' | 'runIds' | 'lastInstanceId'
>;

/** Reads and writes `schedules`. */
export class ScheduleRows {
  readonly #statements: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#statements = statements(schema);
  }

  /** Creates or changes a schedule. Returns `undefined` if it does not have the revision `ifRevision`. */
  async put(
    tx: Transaction,
    { name, definition, nextAt, ifRevision }: PlannedSchedule,
    nowParameter: number | null,
  ): Promise<ScheduleRecord | undefined> {
    const { put, insert, update } = this.#statements;
    const bind = ifRevision === undefined ? put : ifRevision === 0 ? insert : update;
    // A random first revision: a tick of a deleted schedule never matches a new one of that name.
    const revision = bind === update ? (ifRevision ?? null) : randomInt(1, 2 ** 47);
    const [row] = await tx.query<Row>(
      ...bind({ now: nowParameter, name, definition, revision, nextAt }),
    );
    return row && toRecord(row);
  }

  /** Pauses or resumes a schedule. Returns whether it exists with the revision `ifRevision`. */
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
    const setPaused = this.#statements.setPaused({
      now: nowParameter,
      name,
      paused,
      isMoved: nextAt !== undefined,
      nextAt: nextAt ?? null,
      ifRevision,
    });
    return (await tx.execute(...setPaused)) === 1;
  }

  async delete(tx: Transaction, name: string): Promise<boolean> {
    return (await tx.execute(...this.#statements.delete({ name }))) === 1;
  }

  /** The schedules with the earliest next ticks, the clock, and whether a schedule has buffered ticks. */
  async selectNext(
    tx: Transaction,
    max: number,
    nowParameter: number | null,
  ): Promise<{
    readonly nowMs: number;
    readonly next: readonly ScheduleRecord[];
    readonly hasBuffered: boolean;
  }> {
    const rows = await tx.query<
      Omit<Row, 'name'> & {
        readonly now: number;
        readonly hasBuffered: boolean;
        readonly name: string | null;
      }
    >(...this.#statements.selectNext({ now: nowParameter, limit: max }));
    const { now: nowMs = Number.NaN, hasBuffered = false } = rows[0] ?? {};
    const next = rows.flatMap(({ now: _now, hasBuffered: _hasBuffered, name, ...row }) =>
      name === null ? [] : toRecord({ ...row, name }),
    );
    return { nowMs, next, hasBuffered };
  }

  /**
   * The schedules whose buffered ticks can start, at most `max`, except those that are due anyway; and the runs that the
   * others wait for.
   */
  async selectBuffered(
    tx: Transaction,
    max: number,
    due: readonly ScheduleRecord[],
  ): Promise<{ readonly ready: readonly ScheduleRecord[]; readonly waitsFor: readonly string[] }> {
    const buffered = (await tx.query<Row>(...this.#statements.selectBuffered({}))).map(toRecord);
    if (buffered.length === 0) return { ready: [], waitsFor: [] };
    const runIds = buffered.flatMap((record) => record.runIds);
    const live = new Set(await this.selectLive(tx, runIds));
    const isReady = (record: ScheduleRecord) =>
      !record.runIds.some((instanceId) => live.has(instanceId)) &&
      !due.some(({ name }) => name === record.name);
    const ready = buffered.filter(isReady).slice(0, max);
    return { ready, waitsFor: [...live].slice(0, maxWaitsFor) };
  }

  /** Those of the runs that have not ended. */
  async selectLive(tx: Transaction, runIds: readonly string[]): Promise<readonly string[]> {
    if (runIds.length === 0) return [];
    const rows = await tx.query<{ readonly instanceId: string }>(
      ...this.#statements.selectLive({ runIds }),
    );
    return rows.map(({ instanceId }) => instanceId);
  }

  /** Sets the runs that a locked schedule remembers. */
  async setRuns(
    tx: Transaction,
    runs: {
      readonly name: string;
      readonly runIds: readonly string[];
      readonly lastInstanceId: string | undefined;
    },
  ): Promise<void> {
    const { name, runIds, lastInstanceId = null } = runs;
    const stored = { name, runIds: toStoredList(runIds), lastInstanceId };
    await tx.execute(...this.#statements.setRuns(stored));
  }

  async list(
    tx: Transaction,
    params: {
      readonly limit: number;
      readonly afterName: string;
      readonly names: readonly string[] | undefined;
    },
  ): Promise<readonly ScheduleRecord[]> {
    const { afterName, names } = params;
    const page = { afterName, limit: Math.max(params.limit, 0) };
    const rows = await tx.query<Row>(
      ...(names === undefined
        ? this.#statements.selectPage(page)
        : this.#statements.selectNamed({ ...page, names })),
    );
    return rows.map(toRecord);
  }

  /** A page up to a number of bytes. The first schedule that does not fit is returned without its definition. */
  async listWithin(
    tx: Transaction,
    page: { readonly limit: number; readonly afterName: string; readonly maxBytes: number },
  ): Promise<readonly ScheduleRecord[]> {
    const rows = await tx.query<Row & { readonly isWithheld: boolean }>(
      ...this.#statements.selectWithin({
        afterName: page.afterName,
        limit: Math.max(page.limit, 0),
        maxBytes: Math.max(Math.floor(page.maxBytes), 0),
      }),
    );
    return rows.map(({ isWithheld, ...row }) =>
      isWithheld ? { ...toRecord(row), withheld: true } : toRecord(row),
    );
  }

  /** Locks schedules by name. */
  async lock(tx: Transaction, names: readonly string[]): Promise<readonly LockedSchedule[]> {
    const rows = await tx.query<
      Omit<LockedSchedule, 'runIds'> & { readonly runIds: string | null }
    >(...this.#statements.lock({ names }));
    return rows.map(({ runIds, ...row }) => ({ ...row, runIds: readRunIds(runIds) }));
  }

  /** Advances locked schedules, by one tick each. */
  async move(tx: Transaction, moves: readonly ScheduleMove[], now: number): Promise<void> {
    if (moves.length > 0) await tx.execute(...this.#statements.move({ moves, at: now }));
  }
}

const columns = `name, definition, revision, paused, next_at AS "nextAt", last_tick_at AS "lastTickAt",
  last_instance_id AS "lastInstanceId", last_error AS "lastError", run_ids AS "runIds",
  buffered_ticks AS "bufferedTicks", skipped_ticks AS "skippedTicks", created_at AS "createdAt",
  updated_at AS "updatedAt"`;

const moveRows = rowsOf<ScheduleMove>()({
  name: ['text', ({ tick }) => tick.name],
  next_at: ['bigint', ({ tick }) => tick.nextAt],
  last_tick_at: ['bigint', ({ tick }) => tick.lastTickAt],
  instance_id: ['text', ({ instanceId }) => instanceId],
  error: ['text', ({ tick }) => tick.error],
  run_ids: ['text', ({ runIds }) => toStoredList(runIds)],
  buffered_ticks: ['text', ({ bufferedTicks }) => toStoredList(bufferedTicks)],
  skipped: ['bigint', ({ skipped }) => skipped],
});

function statements(schema: string) {
  const table = `${schema}.schedules`;
  const now = one<number | null>('bigint');
  const limit = one<number>('bigint');
  const page = { afterName: one<string>('text'), limit };
  const written = {
    now,
    name: one<string>('text'),
    definition: one<string>('text'),
    revision: one<number | null>('bigint'),
    nextAt: one<number | null>('bigint'),
  };
  type Written = Readonly<Record<keyof typeof written, string>>;
  const insert = ({ name, definition, revision, nextAt }: Written) =>
    `INSERT INTO ${table} AS schedule (name, definition, revision, next_at, created_at, updated_at)
      VALUES (${name}, ${definition}, ${revision}, ${nextAt}, ${nowSql}, ${nowSql})`;
  const changes = ({ definition, nextAt }: Written) =>
    `definition = ${definition}, next_at = ${nextAt}, updated_at = ${nowSql}, revision = schedule.revision + 1`;
  const isWithheld = 'coalesce(name = (SELECT name FROM cut), FALSE)';
  const withinColumns = columns.replace(
    'definition',
    `CASE WHEN ${isWithheld} THEN '' ELSE definition END AS definition`,
  );
  return {
    put: prepare(
      'perdure_put_schedule',
      written,
      (row) =>
        `${insert(row)} ON CONFLICT (name) DO UPDATE SET ${changes(row)} RETURNING ${columns}`,
    ),
    insert: prepare(
      'perdure_insert_schedule',
      written,
      (row) => `${insert(row)} ON CONFLICT (name) DO NOTHING RETURNING ${columns}`,
    ),
    update: prepare(
      'perdure_update_schedule',
      written,
      (row) =>
        `UPDATE ${table} AS schedule SET ${changes(row)} WHERE name = ${row.name} AND revision = ${row.revision}
        RETURNING ${columns}`,
    ),
    setPaused: prepare(
      'perdure_pause_schedule',
      {
        now,
        name: one<string>('text'),
        paused: one<boolean>('boolean'),
        isMoved: one<boolean>('boolean'),
        nextAt: one<number | null>('bigint'),
        ifRevision: one<number | null>('bigint'),
      },
      ({ name, paused, isMoved, nextAt, ifRevision }) => `UPDATE ${table}
        SET paused = ${paused}, next_at = CASE WHEN ${isMoved} THEN ${nextAt} ELSE next_at END,
            updated_at = ${nowSql}, revision = revision + 1
        WHERE name = ${name} AND revision = coalesce(${ifRevision}, revision)`,
    ),
    delete: prepare(
      'perdure_delete_schedule',
      { name: one<string>('text') },
      ({ name }) => `DELETE FROM ${table} WHERE name = ${name}`,
    ),
    selectNext: prepare(
      'perdure_next_schedules',
      { now, limit },
      ({ limit }) =>
        `SELECT ${nowSql} AS "now",
          (SELECT TRUE FROM ${table} WHERE NOT paused AND buffered_ticks IS NOT NULL AND name >= '' LIMIT 1) IS NOT NULL
            AS "hasBuffered",
          next.* FROM (VALUES (1)) AS one (row) LEFT JOIN LATERAL (
          SELECT ${columns} FROM ${table} WHERE NOT paused AND next_at IS NOT NULL
          ORDER BY next_at, name LIMIT ${limit}) AS next ON TRUE`,
    ),
    selectPage: prepare(
      'perdure_list_schedules',
      page,
      ({ afterName, limit }) =>
        `SELECT ${columns} FROM ${table} WHERE name > ${afterName} ORDER BY name LIMIT ${limit}`,
    ),
    // Sizes first: rows that do not fit are never read.
    selectWithin: prepare(
      'perdure_list_schedules_within',
      { ...page, maxBytes: one<number>('bigint') },
      ({ afterName, limit, maxBytes }) => `WITH sized AS MATERIALIZED (
          SELECT name, bytes, sum(bytes) OVER (ORDER BY name) AS total FROM (
            SELECT name, octet_length(definition) AS bytes FROM ${table} WHERE name > ${afterName}
            ORDER BY name LIMIT ${limit}) AS page),
        cut AS MATERIALIZED (
          SELECT name FROM sized WHERE total > ${maxBytes} AND total > bytes ORDER BY name LIMIT 1)
        SELECT ${withinColumns}, ${isWithheld} AS "isWithheld" FROM ${table}
        WHERE name = ANY (ARRAY(SELECT name FROM sized WHERE name <= coalesce((SELECT name FROM cut), name)))
        ORDER BY name`,
    ),
    selectNamed: prepare(
      'perdure_list_named_schedules',
      { ...page, names: strings() },
      ({ afterName, limit, names }) =>
        `SELECT ${columns} FROM ${table} WHERE name = ANY (${names}) AND name > ${afterName}
        ORDER BY name LIMIT ${limit}`,
    ),
    selectBuffered: prepare(
      'perdure_buffered_schedules',
      {},
      () =>
        `SELECT ${columns} FROM ${table} WHERE NOT paused AND buffered_ticks IS NOT NULL AND name >= ''
        ORDER BY name`,
    ),
    // One index lookup per id, also under a plan made while the table was empty.
    selectLive: prepare(
      'perdure_live_scheduled_runs',
      { runIds: strings() },
      ({ runIds }) => `SELECT wanted.id AS "instanceId" FROM unnest(${runIds}) AS wanted (id)
        CROSS JOIN LATERAL (SELECT ended_at FROM ${schema}.instances AS run WHERE run.instance_id = wanted.id LIMIT 1) AS run
        WHERE run.ended_at IS NULL`,
    ),
    setRuns: prepare(
      'perdure_set_scheduled_runs',
      {
        name: one<string>('text'),
        runIds: one<string | null>('text'),
        lastInstanceId: one<string | null>('text'),
      },
      ({ name, runIds, lastInstanceId }) => `UPDATE ${table}
        SET run_ids = ${runIds}, last_instance_id = coalesce(${lastInstanceId}, last_instance_id)
        WHERE name = ${name}`,
    ),
    lock: prepare(
      'perdure_lock_schedules',
      { names: strings() },
      ({ names }) =>
        `SELECT name, revision, paused, run_ids AS "runIds", last_instance_id AS "lastInstanceId" FROM ${table}
        WHERE name = ANY (${names}) ORDER BY name FOR UPDATE`,
    ),
    move: prepare(
      'perdure_move_schedules',
      { moves: moveRows, at: one<number>('bigint') },
      ({ moves, at }) => `UPDATE ${table} AS schedule
        SET next_at = tick.next_at, last_tick_at = tick.last_tick_at,
            last_instance_id = coalesce(tick.instance_id, last_instance_id), last_error = tick.error,
            run_ids = tick.run_ids, buffered_ticks = tick.buffered_ticks,
            skipped_ticks = schedule.skipped_ticks + tick.skipped,
            updated_at = ${at}, revision = schedule.revision + 1
        FROM ${moves.as('tick')}
        ${rowIdOf(table, 'one.name = tick.name')}
        WHERE schedule.ctid = found.row_id`,
    ),
  };
}
