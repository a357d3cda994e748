import type { CreateResult } from '../../contract/instances.ts';
import type {
  ScheduledRun,
  ScheduledRuns,
  ScheduleRecord,
  ScheduleResume,
  ScheduleStore,
  ScheduleTick,
  WhileRunning,
} from '../../contract/schedules.ts';
import type { CreateTaskResult } from '../../contract/tasks.ts';
import { appendRuns, rememberRuns, runsToCheck } from '../../rules/schedule-runs.ts';
import type { Scope } from '../batches/group-commit.ts';
import { createInstance, type InstanceParts } from '../instances/instances.ts';
import type { InstanceStops } from '../stopping/instance-stops.ts';
import type { Audit } from '../tables/audit.ts';
import { createTask, type TaskParts } from '../tasks/task-runs.ts';
import type { ScheduleRows } from './schedule-rows.ts';

/** The parts of the store that schedules use. */
interface ScheduleParts extends InstanceParts, TaskParts {
  readonly scheduleRows: ScheduleRows;
  readonly stops: InstanceStops;
  readonly audit: Audit;
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
  const instances = started.filter(({ created }) => created).length;
  if (instances > 0) store.audit.record([{ entry: audit, counts: { instances } }], scope.now);
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
