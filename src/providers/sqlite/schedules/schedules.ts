import { randomInt } from 'node:crypto';
import type Database from 'better-sqlite3';
import type { CreateResult } from '../../contract/instances.ts';
import { bytesOfTexts, takeWithin } from '../../contract/page-bytes.ts';
import type {
  ScheduleRecord,
  ScheduleResume,
  ScheduleStore,
  ScheduleTick,
  PlannedSchedule,
} from '../../contract/schedules.ts';
import type { CreateTaskResult } from '../../contract/tasks.ts';
import type { Scope } from '../batches/group-commit.ts';
import { createInstance, type InstanceParts } from '../instances/instances.ts';
import { createTask, type TaskParts } from '../tasks/task-runs.ts';

/** The parts of the store that schedules use. */
interface ScheduleParts extends InstanceParts, TaskParts {
  readonly scheduleRows: ScheduleRows;
}

/** Schedules and their ticks. */
export function createScheduleStore(store: ScheduleParts): ScheduleStore {
  const { scheduleRows: rows } = store;
  return {
    async putSchedule(write) {
      return store.writeOnce('putSchedule', ({ now }) => {
        const planned = 'plan' in write ? write.plan(now) : write;
        const { name, ifRevision, audit } = write;
        const record = planned && rows.put({ name, ifRevision, ...planned }, now);
        if (record !== undefined) store.audit.record([{ entry: audit }], now);
        return record;
      });
    },

    setSchedulePaused: (name, paused, resume) =>
      store.writeOnce('setSchedulePaused', ({ now }) => {
        const written = rows.setPaused({
          ...resume,
          nextAt: nextAtOf(resume, now),
          name,
          paused,
          now,
        });
        if (written) store.audit.record([{ entry: resume?.audit }], now);
        return written;
      }),

    deleteSchedule: (name, audit) =>
      store.writeOnce('deleteSchedule', ({ now }) => {
        const deleted = rows.delete(name);
        if (deleted) store.audit.record([{ entry: audit }], now);
        return deleted;
      }),

    listSchedules: ({ limit, afterName = '', names, maxBytes }) =>
      store.read('listSchedules', () =>
        names === undefined
          ? rows.listAfter(afterName, limit, maxBytes)
          : namedAfter(store, names, afterName).slice(0, Math.max(limit, 0)),
      ),

    dueSchedules: (max) =>
      store.read('dueSchedules', () => {
        const nowMs = store.now();
        const next = rows.selectNext(Math.max(max, 0) + 1);
        const due = next.slice(0, max).filter(({ nextAt }) => nextAt !== null && nextAt <= nowMs);
        return { due, nowMs, nextAt: next[due.length]?.nextAt ?? null };
      }),

    tickSchedules: (ticks) =>
      store.write('tickSchedules', ticks, (scope, one) => tick(store, scope, one)),
  };
}

function nextAtOf({ nextAt }: ScheduleResume = {}, now: number): number | null | undefined {
  return typeof nextAt === 'function' ? nextAt(now) : nextAt;
}

function namedAfter(
  store: ScheduleParts,
  names: readonly string[],
  afterName: string,
): readonly ScheduleRecord[] {
  return [...new Set(names)]
    .map((name) => store.scheduleRows.get(name))
    .filter((record) => record !== undefined)
    .filter(({ name }) => byName(name, afterName) > 0)
    .sort((a, b) => byName(a.name, b.name));
}

// Byte order, as in the database.
function byName(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

function tick(store: ScheduleParts, scope: Scope, one: ScheduleTick): boolean {
  const { now } = scope;
  const schedule = store.scheduleRows.get(one.name);
  if (schedule === undefined || schedule.paused || schedule.revision !== one.revision) return false;
  const started = scope.isolate('tickSchedules', () => start(store, scope, one));
  // A start that the store rejects is recorded as an error. Otherwise it would block the schedule forever.
  const outcome = started.ok
    ? { instanceId: started.value, error: one.error }
    : { instanceId: null, error: started.error.message };
  return store.scheduleRows.move(one, { ...outcome, now });
}

/** Starts all runs of a tick, or throws. Returns the id of the last one. */
function start(
  store: ScheduleParts,
  scope: Scope,
  { instances, tasks }: ScheduleTick,
): string | null {
  let last: string | null = null;
  for (const instance of instances) {
    last = startedId(createInstance(store, scope, instance), instance.instanceId);
  }
  for (const task of tasks) last = startedId(createTask(store, scope, task), task.instanceId);
  return last;
}

function startedId(result: CreateResult | CreateTaskResult, instanceId: string): string {
  if (result.kind === 'refused') throw result.error;
  return result.kind === 'active' ? result.instanceId : instanceId;
}

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

  /** Creates or updates a schedule. Returns `undefined` if `ifRevision` does not match. */
  put(write: PlannedSchedule, now: number): ScheduleRecord | undefined {
    const { name, definition, nextAt, ifRevision } = write;
    const existing = this.#select.get(name);
    if (ifRevision !== undefined && ifRevision !== (existing?.revision ?? 0)) return undefined;
    if (existing !== undefined) this.#update.run(definition, nextAt, now, name);
    // A random first revision: a tick of a deleted schedule never matches a new one of the same name.
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

  /** Advances a schedule after a tick. Returns `false` if it is paused, deleted or changed. */
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
