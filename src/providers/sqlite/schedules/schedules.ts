import { randomInt } from 'node:crypto';
import type Database from 'better-sqlite3';
import type { CreateResult } from '../../contract/instances.ts';
import { bytesOfTexts, takeWithin } from '../../contract/page-bytes.ts';
import type { AuditEntry } from '../../contract/management.ts';
import type {
  ScheduledRun,
  ScheduledRuns,
  ScheduleRecord,
  ScheduleResume,
  ScheduleStore,
  ScheduleTick,
  PlannedSchedule,
  WhileRunning,
} from '../../contract/schedules.ts';
import type { CreateTaskResult } from '../../contract/tasks.ts';
import {
  appendRuns,
  maxWaitsFor,
  readRunIds,
  readTicks,
  rememberRuns,
  runsToCheck,
  toStoredList,
} from '../../rules/schedule-runs.ts';
import type { Scope } from '../batches/group-commit.ts';
import { createInstance, type InstanceParts } from '../instances/instances.ts';
import type { InstanceStops } from '../stopping/instance-stops.ts';
import { createTask, type TaskParts } from '../tasks/task-runs.ts';

/** The parts of the store that schedules use. */
interface ScheduleParts extends InstanceParts, TaskParts {
  readonly scheduleRows: ScheduleRows;
  readonly stops: InstanceStops;
  readonly audit: { recordAction(entry: AuditEntry | undefined, now: number): void };
}

/** Schedules and their ticks. */
export function createScheduleStore(store: ScheduleParts): ScheduleStore {
  const { scheduleRows: rows } = store;
  return {
    async putSchedule(write) {
      return store.writeOnce('putSchedule', ({ now }) => {
        const planned = 'plan' in write ? write.plan(now) : write;
        const { name, ifRevision } = write;
        return planned && rows.put({ name, ifRevision, ...planned }, now);
      });
    },

    setSchedulePaused: (name, paused, resume) =>
      store.writeOnce('setSchedulePaused', ({ now }) =>
        rows.setPaused({ ...resume, nextAt: nextAtOf(resume, now), name, paused, now }),
      ),

    deleteSchedule: (name) => store.writeOnce('deleteSchedule', () => rows.delete(name)),

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
        const { ready, waitsFor } = rows.selectBuffered(Math.max(max, 0), due);
        const nextAt = next[due.length]?.nextAt ?? null;
        return { due: [...due, ...ready], nowMs, nextAt, waitsFor };
      }),

    tickSchedules: (ticks) =>
      store.write('tickSchedules', ticks, (scope, one) => tick(store, scope, one)),

    startScheduledRuns: (runs) =>
      store.writeOnce('startScheduledRuns', (scope) => startRuns(store, scope, runs)),
  };
}

/** Starts runs of a schedule without a tick. Throws if the store rejects one. */
function startRuns(
  store: ScheduleParts,
  scope: Scope,
  { name, ifRevision, areTracked, audit, ...runs }: ScheduledRuns,
): readonly ScheduledRun[] | undefined {
  const schedule = store.scheduleRows.get(name);
  if (schedule?.revision !== ifRevision) return undefined;
  const started = start(store, scope, runs);
  if (areTracked) {
    const ids = started.map(({ instanceId }) => instanceId);
    store.scheduleRows.setRuns(name, appendRuns(schedule.runIds, ids), ids.at(-1) ?? null);
  }
  if (started.some(({ created }) => created)) store.audit.recordAction(audit, scope.now);
  return started;
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
  const known = runsToCheck(schedule);
  const live = one.whileRunning === undefined ? [] : store.scheduleRows.selectLive(known);
  const isLive = (instanceId: string): boolean => live.includes(instanceId);
  if (one.whileRunning !== undefined && live.length > 0) {
    const { bufferedTicks, skipped } = one.whileRunning;
    cancelRuns(store, scope, live, one.whileRunning);
    const runIds = rememberRuns(known, [], isLive);
    const held = { bufferedTicks, skipped, runIds, instanceId: null, error: one.error, now };
    return store.scheduleRows.move(one, held);
  }
  const started = scope.isolate('tickSchedules', () => start(store, scope, one));
  const ids = started.ok ? started.value.map(({ instanceId }) => instanceId) : [];
  return store.scheduleRows.move(one, {
    bufferedTicks: one.bufferedTicks ?? [],
    skipped: one.skipped ?? 0,
    runIds: rememberRuns(known, ids, isLive),
    instanceId: ids.at(-1) ?? null,
    // A start that the store rejects is recorded as an error. Otherwise it would block the schedule forever.
    error: started.ok ? one.error : started.error.message,
    now,
  });
}

function cancelRuns(
  store: ScheduleParts,
  scope: Scope,
  live: readonly string[],
  { cancel }: WhileRunning,
): void {
  if (cancel === undefined) return;
  for (const instanceId of live) {
    const row = store.instances.find(instanceId);
    if (row !== undefined) store.stops.request(scope, row, { ...cancel, actor: null });
  }
}

/** Starts all runs, or throws. */
function start(
  store: ScheduleParts,
  scope: Scope,
  { instances, tasks }: Pick<ScheduleTick, 'instances' | 'tasks'>,
): readonly ScheduledRun[] {
  return [
    ...instances.map((one) => startedRun(createInstance(store, scope, one), one.instanceId)),
    ...tasks.map((one) => startedRun(createTask(store, scope, one), one.instanceId)),
  ];
}

function startedRun(result: CreateResult | CreateTaskResult, instanceId: string): ScheduledRun {
  if (result.kind === 'refused') throw result.error;
  return {
    instanceId: result.kind === 'active' ? result.instanceId : instanceId,
    created: result.kind === 'created',
  };
}

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
      `SELECT ${columns} FROM schedules WHERE paused = 0 AND buffered_ticks IS NOT NULL ORDER BY name`,
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
