import type { CreateResult } from '../../contract/instances.ts';
import type { ScheduleStore, ScheduleTick } from '../../contract/schedules.ts';
import type { CreateTaskResult } from '../../contract/tasks.ts';
import type { Transaction } from '../driver/connection.ts';
import { create } from '../instances/instances.ts';
import { isFaultOfItem } from '../driver/postgres-errors.ts';
import type { ScheduleMove } from './schedule-rows.ts';
import type { Scope } from '../driver/scope.ts';
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
