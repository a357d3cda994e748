import { randomInt } from 'node:crypto';
import type { CreateResult } from '../../contract/instances.ts';
import type {
  ScheduleStore,
  ScheduleTick,
  PlannedSchedule,
  ScheduleRecord,
} from '../../contract/schedules.ts';
import type { AuditEntry } from '../../contract/management.ts';
import type { CreateTaskResult } from '../../contract/tasks.ts';
import { one, prepare, rowsOf, strings, rowIdOf } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import { isFaultOfItem } from '../driver/postgres-errors.ts';
import { nowSql, type Scope } from '../driver/scope.ts';
import type { CreateInstances, StoreAccess } from '../batches/store-access.ts';
import type { NextDueCache } from '../wakeups/due-query.ts';
import type { Audit } from '../tables/audit.ts';
import { createTasks, type TaskTables } from '../tasks/tasks.ts';

type ScheduleParts = StoreAccess &
  TaskTables & {
    readonly audit: Audit;
    readonly scheduleRows: ScheduleRows;
    readonly nextSchedule: NextDueCache;
  };

/** Implements schedules and their ticks. */
export function createScheduleStore(
  store: ScheduleParts,
  createInstances: CreateInstances,
): ScheduleStore {
  const tick: Tick = (scope, ticks) => tickAll(store, scope, { ticks, createInstances });
  const { scheduleRows: rows, nextSchedule } = store;
  /** Runs a write that may change when the next schedule is due. */
  const change = async <T>(operation: string, work: (scope: Scope) => Promise<T>): Promise<T> => {
    try {
      return await store.writeOnce(operation, work);
    } finally {
      nextSchedule.invalidate();
    }
  };
  return {
    putSchedule: (write) =>
      change('putSchedule', async (scope) => {
        const { tx } = scope;
        const { name, ifRevision, audit } = write;
        if ('plan' in write || audit !== undefined) await scope.begin();
        const planned = 'plan' in write ? write.plan(scope.now) : write;
        const wanted = planned && { name, ifRevision, ...planned };
        const record = wanted && (await rows.put(tx, wanted, scope.nowParameter));
        if (record !== undefined) await recordChange(store, scope, audit);
        return record;
      }),

    setSchedulePaused: (name, paused, resume) =>
      change('setSchedulePaused', async (scope) => {
        const { nextAt, ifRevision } = resume ?? {};
        const isAudited = resume?.audit !== undefined;
        if (typeof nextAt === 'function' || isAudited) await scope.begin();
        const planned = typeof nextAt === 'function' ? nextAt(scope.now) : nextAt;
        const { tx, nowParameter } = scope;
        const wanted = { name, paused, nextAt: planned, ifRevision };
        const written = await rows.setPaused(tx, wanted, nowParameter);
        if (written) await recordChange(store, scope, resume?.audit);
        return written;
      }),

    deleteSchedule: (name, audit) =>
      change('deleteSchedule', async (scope) => {
        if (audit !== undefined) await scope.begin();
        const deleted = await rows.delete(scope.tx, name);
        if (deleted) await recordChange(store, scope, audit);
        return deleted;
      }),

    listSchedules: ({ limit, afterName = '', names, maxBytes }) =>
      store.read('listSchedules', (tx) =>
        maxBytes === undefined || names !== undefined
          ? rows.list(tx, { limit, afterName, names })
          : rows.listWithin(tx, { limit, afterName, maxBytes }),
      ),

    async dueSchedules(max) {
      store.assertOpen('dueSchedules');
      const known = nextSchedule.get();
      return known === undefined
        ? store.read('dueSchedules', (tx) => readDue(store, tx, max))
        : { due: [], nowMs: known.nowMs, nextAt: known.nextAt === Infinity ? null : known.nextAt };
    },

    async tickSchedules(ticks) {
      try {
        return await tickSchedules(store, tick, ticks);
      } finally {
        nextSchedule.invalidate();
      }
    },
  };
}

/** Records a change of a schedule. Call `scope.begin()` first if there is an entry. */
async function recordChange(
  { audit }: ScheduleParts,
  scope: Scope,
  entry: AuditEntry | undefined,
): Promise<void> {
  if (entry !== undefined) await audit.record(scope.tx, [{ entry }], scope.now);
}

async function readDue(
  { scheduleRows, nowParameter }: ScheduleParts,
  tx: Transaction,
  max: number,
) {
  const most = Math.max(max, 0) + 1;
  const { nowMs, next } = await scheduleRows.selectNext(tx, most, nowParameter);
  const due = next.slice(0, max).filter(({ nextAt }) => nextAt !== null && nextAt <= nowMs);
  return { due, nowMs, nextAt: next[due.length]?.nextAt ?? null };
}

type Tick = (scope: Scope, ticks: readonly ScheduleTick[]) => Promise<readonly boolean[]>;

/** Executes ticks in one transaction. If one fails, each in its own. */
async function tickSchedules(
  store: StoreAccess,
  tick: Tick,
  ticks: readonly ScheduleTick[],
): Promise<readonly boolean[]> {
  store.assertOpen('tickSchedules');
  if (ticks.length === 0) return [];
  try {
    return await store.writeOnce('tickSchedules', (scope) => tick(scope, ticks));
  } catch (error) {
    if (!isFaultOfItem(error)) throw error;
    const [only] = ticks;
    if (ticks.length === 1 && only !== undefined) {
      // The schedule records the error and continues. It would otherwise retry this tick forever.
      const skipped = { ...only, instances: [], tasks: [], error: (error as Error).message };
      return store.writeOnce('tickSchedules', (scope) => tick(scope, [skipped]));
    }
    const results: boolean[] = [];
    for (const one of ticks) results.push(...(await tickSchedules(store, tick, [one])));
    return results;
  }
}

interface Ticks {
  readonly ticks: readonly ScheduleTick[];
  readonly createInstances: CreateInstances;
}

/** Starts the runs of ticks and advances their schedules. Returns for each whether its revision was current. */
async function tickAll(
  store: ScheduleParts,
  scope: Scope,
  { ticks, createInstances }: Ticks,
): Promise<readonly boolean[]> {
  const [schedules] = await scope.begin(
    store.scheduleRows.lock(
      scope.tx,
      ticks.map(({ name }) => name),
    ),
  );
  const live = new Map(schedules.map((schedule) => [schedule.name, schedule]));
  const isCurrent = ticks.map(({ name, revision }) => {
    const schedule = live.get(name);
    const isMatch = schedule?.paused === false && schedule.revision === revision;
    // Only one tick per revision is executed.
    if (isMatch) live.delete(name);
    return isMatch;
  });
  const current = ticks.filter((_, index) => isCurrent[index]);
  const moves = await startRuns(store, scope, { ticks: current, createInstances });
  await store.scheduleRows.move(scope.tx, moves, scope.now);
  return isCurrent;
}

/** Starts all runs of ticks, or throws. */
async function startRuns(
  store: TaskTables,
  scope: Scope,
  { ticks, createInstances }: Ticks,
): Promise<readonly ScheduleMove[]> {
  const instances = ticks.flatMap((tick) => tick.instances);
  const tasks = ticks.flatMap((tick) => tick.tasks);
  const created = instances.length === 0 ? [] : await createInstances(scope, instances);
  const ran = tasks.length === 0 ? [] : await createTasks(store, scope, tasks);
  const ids = new Map<object, string>();
  for (const [index, one] of instances.entries()) ids.set(one, startedId(created[index], one));
  for (const [index, one] of tasks.entries()) ids.set(one, startedId(ran[index], one));
  return ticks.map((tick) => {
    const last = tick.tasks.at(-1) ?? tick.instances.at(-1);
    const instanceId = last === undefined ? null : (ids.get(last) ?? null);
    return { tick, instanceId, error: tick.error };
  });
}

function startedId(
  result: CreateResult | CreateTaskResult | undefined,
  { instanceId }: { readonly instanceId: string },
): string {
  if (result?.kind === 'refused') throw result.error;
  return result?.kind === 'active' ? result.instanceId : instanceId;
}

/** The next state of a schedule after a tick. */
interface ScheduleMove {
  readonly tick: ScheduleTick;
  readonly instanceId: string | null;
  readonly error: string | null;
}

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
    const [record] = await tx.query<ScheduleRecord>(
      ...bind({ now: nowParameter, name, definition, revision, nextAt }),
    );
    return record;
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

  /** The schedules with the earliest next ticks, and the clock. */
  async selectNext(
    tx: Transaction,
    max: number,
    nowParameter: number | null,
  ): Promise<{ readonly nowMs: number; readonly next: readonly ScheduleRecord[] }> {
    const rows = await tx.query<
      Omit<ScheduleRecord, 'name'> & { readonly now: number; readonly name: string | null }
    >(...this.#statements.selectNext({ now: nowParameter, limit: max }));
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
    const { afterName, names } = params;
    const page = { afterName, limit: Math.max(params.limit, 0) };
    return tx.query<ScheduleRecord>(
      ...(names === undefined
        ? this.#statements.selectPage(page)
        : this.#statements.selectNamed({ ...page, names })),
    );
  }

  /** A page up to a number of bytes. The first schedule that does not fit is returned without its definition. */
  async listWithin(
    tx: Transaction,
    page: { readonly limit: number; readonly afterName: string; readonly maxBytes: number },
  ): Promise<readonly ScheduleRecord[]> {
    const rows = await tx.query<ScheduleRecord & { readonly isWithheld: boolean }>(
      ...this.#statements.selectWithin({
        afterName: page.afterName,
        limit: Math.max(page.limit, 0),
        maxBytes: Math.max(Math.floor(page.maxBytes), 0),
      }),
    );
    return rows.map(({ isWithheld, ...row }) => (isWithheld ? { ...row, withheld: true } : row));
  }

  /** Locks schedules by name. */
  lock(
    tx: Transaction,
    names: readonly string[],
  ): Promise<readonly Pick<ScheduleRecord, 'name' | 'revision' | 'paused'>[]> {
    return tx.query(...this.#statements.lock({ names }));
  }

  /** Advances locked schedules, by one tick each. */
  async move(tx: Transaction, moves: readonly ScheduleMove[], now: number): Promise<void> {
    if (moves.length > 0) await tx.execute(...this.#statements.move({ moves, at: now }));
  }
}

const columns = `name, definition, revision, paused, next_at AS "nextAt", last_tick_at AS "lastTickAt",
  last_instance_id AS "lastInstanceId", last_error AS "lastError", created_at AS "createdAt",
  updated_at AS "updatedAt"`;

const moveRows = rowsOf<ScheduleMove>()({
  name: ['text', ({ tick }) => tick.name],
  next_at: ['bigint', ({ tick }) => tick.nextAt],
  last_tick_at: ['bigint', ({ tick }) => tick.lastTickAt],
  instance_id: ['text', ({ instanceId }) => instanceId],
  error: ['text', ({ error }) => error],
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
        `SELECT ${nowSql} AS "now", next.* FROM (VALUES (1)) AS one (row) LEFT JOIN LATERAL (
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
    lock: prepare(
      'perdure_lock_schedules',
      { names: strings() },
      ({ names }) =>
        `SELECT name, revision, paused FROM ${table} WHERE name = ANY (${names}) ORDER BY name FOR UPDATE`,
    ),
    move: prepare(
      'perdure_move_schedules',
      { moves: moveRows, at: one<number>('bigint') },
      ({ moves, at }) => `UPDATE ${table} AS schedule
        SET next_at = tick.next_at, last_tick_at = tick.last_tick_at,
            last_instance_id = coalesce(tick.instance_id, last_instance_id), last_error = tick.error,
            updated_at = ${at}, revision = schedule.revision + 1
        FROM ${moves.as('tick')}
        ${rowIdOf(table, 'one.name = tick.name')}
        WHERE schedule.ctid = found.row_id`,
    ),
  };
}
