import { randomInt } from 'node:crypto';
import type { CreateResult } from '../../contract/instances.ts';
import type {
  ScheduleStore,
  ScheduleTick,
  PlannedSchedule,
  ScheduleRecord,
} from '../../contract/schedules.ts';
import type { CreateTaskResult } from '../../contract/tasks.ts';
import { numbers, text, texts } from '../driver/arrays.ts';
import type { Transaction, Statement } from '../driver/connection.ts';
import { placeOf } from '../driver/lateral-lookup.ts';
import { isFaultOfItem } from '../driver/postgres-errors.ts';
import { nowSql, type Scope } from '../driver/scope.ts';
import { create } from '../instances/instances.ts';
import type { Store } from '../store.ts';
import { createTasks } from '../tasks/tasks.ts';

/** Schedules and their ticks. */
export function createScheduleStore(store: Store): ScheduleStore {
  const { scheduleRows: rows, nextSchedule } = store;
  /** Changes schedules; what was known of them is forgotten. */
  const change = async <T>(operation: string, work: (scope: Scope) => Promise<T>): Promise<T> => {
    try {
      return await store.writeOnce(operation, work);
    } finally {
      nextSchedule.changed();
    }
  };
  return {
    putSchedule: (write) =>
      change('putSchedule', async (scope) => {
        const { tx } = scope;
        if (!('plan' in write)) return rows.put(tx, write, scope.nowParameter);
        await scope.begin();
        const { name, ifRevision } = write;
        const planned = write.plan(scope.now);
        return planned && rows.put(tx, { name, ifRevision, ...planned }, scope.now);
      }),

    setSchedulePaused: (name, paused, resume) =>
      change('setSchedulePaused', async (scope) => {
        const { nextAt, ifRevision } = resume ?? {};
        if (typeof nextAt === 'function') await scope.begin();
        const planned = typeof nextAt === 'function' ? nextAt(scope.now) : nextAt;
        const { tx, nowParameter } = scope;
        return rows.setPaused(tx, { name, paused, nextAt: planned, ifRevision }, nowParameter);
      }),

    deleteSchedule: (name) => change('deleteSchedule', ({ tx }) => rows.delete(tx, name)),

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
        return await tickSchedules(store, ticks);
      } finally {
        nextSchedule.changed();
      }
    },
  };
}

async function readDue({ scheduleRows, nowParameter }: Store, tx: Transaction, max: number) {
  const most = Math.max(max, 0) + 1;
  const { nowMs, next } = await scheduleRows.selectNext(tx, most, nowParameter);
  const due = next.slice(0, max).filter(({ nextAt }) => nextAt !== null && nextAt <= nowMs);
  return { due, nowMs, nextAt: next[due.length]?.nextAt ?? null };
}

/** Makes the ticks together; where one cannot be made, each for itself. */
async function tickSchedules(
  store: Store,
  ticks: readonly ScheduleTick[],
): Promise<readonly boolean[]> {
  store.assertOpen('tickSchedules');
  if (ticks.length === 0) return [];
  try {
    return await store.writeOnce('tickSchedules', (scope) => tickAll(store, scope, ticks));
  } catch (error) {
    if (!isFaultOfItem(error)) throw error;
    const [only] = ticks;
    if (ticks.length === 1 && only !== undefined) return skip(store, only, error as Error);
    const results: boolean[] = [];
    for (const tick of ticks) results.push(...(await tickSchedules(store, [tick])));
    return results;
  }
}

/** What the store cannot take would hold up the schedule for ever: it is on record, and the schedule goes on. */
function skip(store: Store, tick: ScheduleTick, { message }: Error): Promise<readonly boolean[]> {
  const empty = { ...tick, instances: [], tasks: [], error: message };
  return store.writeOnce('tickSchedules', (scope) => tickAll(store, scope, [empty]));
}

async function tickAll(
  store: Store,
  scope: Scope,
  ticks: readonly ScheduleTick[],
): Promise<readonly boolean[]> {
  const [schedules] = await scope.begin(
    store.scheduleRows.lock(
      scope.tx,
      ticks.map(({ name }) => name),
    ),
  );
  const live = new Map(schedules.map((schedule) => [schedule.name, schedule]));
  const happens = ticks.map(({ name, revision }) => {
    const schedule = live.get(name);
    const fits = schedule?.paused === false && schedule.revision === revision;
    // Of ticks for one revision one happens.
    if (fits) live.delete(name);
    return fits;
  });
  const moves = await start(
    store,
    scope,
    ticks.filter((_, index) => happens[index]),
  );
  await store.scheduleRows.move(scope.tx, moves, scope.now);
  return happens;
}

/** Starts all that ticks start, or throws. */
async function start(
  store: Store,
  scope: Scope,
  ticks: readonly ScheduleTick[],
): Promise<readonly ScheduleMove[]> {
  const instances = ticks.flatMap((tick) => tick.instances);
  const tasks = ticks.flatMap((tick) => tick.tasks);
  const created = instances.length === 0 ? [] : await create(store, scope, instances);
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
