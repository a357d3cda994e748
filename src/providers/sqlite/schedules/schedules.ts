import type { CreateResult } from '../../contract/instances.ts';
import type {
  ScheduleRecord,
  ScheduleResume,
  ScheduleStore,
  ScheduleTick,
} from '../../contract/schedules.ts';
import type { CreateTaskResult } from '../../contract/tasks.ts';
import type { Scope } from '../batches/group-commit.ts';
import { createInstance } from '../instances/instances.ts';
import type { Store } from '../store.ts';
import { createTask } from '../tasks/tasks.ts';

/** Schedules and their ticks. */
export function createScheduleStore(store: Store): ScheduleStore {
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
  store: Store,
  names: readonly string[],
  afterName: string,
): readonly ScheduleRecord[] {
  return [...new Set(names)]
    .map((name) => store.scheduleRows.get(name))
    .filter((record) => record !== undefined)
    .filter(({ name }) => byName(name, afterName) > 0)
    .sort((a, b) => byName(a.name, b.name));
}

// In the order of the database, which compares bytes.
function byName(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

function tick(store: Store, scope: Scope, one: ScheduleTick): boolean {
  const { now } = scope;
  const schedule = store.scheduleRows.get(one.name);
  if (schedule === undefined || schedule.paused || schedule.revision !== one.revision) return false;
  const started = scope.isolate('tickSchedules', () => start(store, scope, one));
  // What the store cannot take would hold up the schedule for ever: it is on record, and the schedule goes on.
  const outcome = started.ok
    ? { instanceId: started.value, error: one.error }
    : { instanceId: null, error: started.error.message };
  return store.scheduleRows.move(one, { ...outcome, now });
}

/** Starts all that a tick starts, or throws; returns the id of the last one. */
function start(store: Store, scope: Scope, { instances, tasks }: ScheduleTick): string | null {
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
