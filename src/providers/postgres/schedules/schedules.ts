import type { CreateResult } from '../../contract/instances.ts';
import type { AuditEntry } from '../../contract/management.ts';
import type {
  ScheduledRun,
  ScheduledRuns,
  ScheduleStore,
  ScheduleTick,
  WhileRunning,
} from '../../contract/schedules.ts';
import type { CreateTaskResult } from '../../contract/tasks.ts';
import { appendRuns, rememberRuns, runsToCheck } from '../../rules/schedule-runs.ts';
import type { Transaction } from '../driver/connection.ts';
import { isFaultOfItem } from '../driver/postgres-errors.ts';
import type { Scope } from '../driver/scope.ts';
import type { CreateInstances, StoreAccess } from '../batches/store-access.ts';
import type { NextDueCache } from '../wakeups/due-query.ts';
import type { Audit } from '../tables/audit.ts';
import { requestCancels, type StopStore } from '../stopping/cancellation.ts';
import { createTasks, type TaskTables } from '../tasks/tasks.ts';
import type { ScheduleRows } from './schedule-rows.ts';

type ScheduleParts = StoreAccess &
  TaskTables &
  StopStore & {
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
        : {
            due: [],
            nowMs: known.nowMs,
            nextAt: known.nextAt === Infinity ? null : known.nextAt,
            waitsFor: [],
          };
    },

    async tickSchedules(ticks) {
      try {
        return await tickSchedules(store, tick, ticks);
      } finally {
        nextSchedule.invalidate();
      }
    },

    startScheduledRuns: (runs) =>
      store.writeOnce('startScheduledRuns', (scope) =>
        startScheduledRuns(store, scope, { runs, createInstances }),
      ),
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

/** Starts runs of a schedule without a tick. Throws if the store rejects one. */
async function startScheduledRuns(
  store: ScheduleParts,
  scope: Scope,
  {
    runs: { name, ifRevision, areTracked, audit, instances, tasks },
    createInstances,
  }: { readonly runs: ScheduledRuns; readonly createInstances: CreateInstances },
): Promise<readonly ScheduledRun[] | undefined> {
  const [[schedule]] = await scope.begin(store.scheduleRows.lock(scope.tx, [name]));
  if (schedule?.revision !== ifRevision) return undefined;
  const started = await createRuns(store, scope, { instances, tasks, createInstances });
  if (areTracked) {
    const ids = started.map(({ instanceId }) => instanceId);
    const runIds = appendRuns(schedule.runIds, ids);
    await store.scheduleRows.setRuns(scope.tx, { name, runIds, lastInstanceId: ids.at(-1) });
  }
  const created = started.filter((run) => run.created).length;
  if (created > 0) {
    await store.audit.record(
      scope.tx,
      [{ entry: audit, counts: { instances: created } }],
      scope.now,
    );
  }
  return started;
}

async function readDue(
  { scheduleRows, nowParameter }: ScheduleParts,
  tx: Transaction,
  max: number,
) {
  const most = Math.max(max, 0) + 1;
  const { nowMs, next, hasBuffered } = await scheduleRows.selectNext(tx, most, nowParameter);
  const due = next.slice(0, max).filter(({ nextAt }) => nextAt !== null && nextAt <= nowMs);
  const { ready, waitsFor } = hasBuffered
    ? await scheduleRows.selectBuffered(tx, Math.max(max, 0), due)
    : { ready: [], waitsFor: [] };
  return { due: [...due, ...ready], nowMs, nextAt: next[due.length]?.nextAt ?? null, waitsFor };
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
      const { whileRunning: _, ...rest } = only;
      const skipped = { ...rest, instances: [], tasks: [], error: (error as Error).message };
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
  const locked = new Map(schedules.map((schedule) => [schedule.name, schedule]));
  const isCurrent = ticks.map(({ name, revision }) => {
    const schedule = locked.get(name);
    const isMatch = schedule?.paused === false && schedule.revision === revision;
    // Only one tick per revision is executed.
    if (isMatch) locked.delete(name);
    return isMatch;
  });
  const current = ticks.filter((_, index) => isCurrent[index]);
  const known = new Map(schedules.map((schedule) => [schedule.name, runsToCheck(schedule)]));
  const plan = await planTicks(store, scope, { ticks: current, known });
  await cancelRuns(store, scope, plan.held);
  const runs = await startRuns(store, scope, { ticks: plan.starting, createInstances });
  const isLive = (instanceId: string): boolean => plan.live.has(instanceId);
  const moves = [
    ...plan.held.map(({ tick, bufferedTicks, skipped }) => ({
      tick,
      bufferedTicks,
      skipped,
      runIds: rememberRuns(known.get(tick.name) ?? [], [], isLive),
      instanceId: null,
    })),
    ...plan.starting.map((tick, index) => ({
      tick,
      bufferedTicks: tick.bufferedTicks ?? [],
      skipped: tick.skipped ?? 0,
      runIds: rememberRuns(known.get(tick.name) ?? [], runs[index] ?? [], isLive),
      instanceId: runs[index]?.at(-1) ?? null,
    })),
  ];
  await store.scheduleRows.move(scope.tx, moves, scope.now);
  return isCurrent;
}

/** A tick that starts nothing, because the runs `live` of its schedule have not ended. */
interface HeldTick extends WhileRunning {
  readonly tick: ScheduleTick;
  readonly live: readonly string[];
}

/** Decides which ticks start their runs. Reads runs only for ticks with `whileRunning`. */
async function planTicks(
  { scheduleRows }: Pick<ScheduleParts, 'scheduleRows'>,
  { tx }: Scope,
  {
    ticks,
    known,
  }: {
    readonly ticks: readonly ScheduleTick[];
    readonly known: ReadonlyMap<string, readonly string[]>;
  },
): Promise<{
  readonly live: ReadonlySet<string>;
  readonly held: readonly HeldTick[];
  readonly starting: readonly ScheduleTick[];
}> {
  const runsOf = ({ name, whileRunning }: ScheduleTick) =>
    whileRunning === undefined ? [] : (known.get(name) ?? []);
  const live = new Set(await scheduleRows.selectLive(tx, ticks.flatMap(runsOf)));
  const held = ticks.flatMap((tick): readonly HeldTick[] => {
    const blocking = runsOf(tick).filter((instanceId) => live.has(instanceId));
    const { whileRunning } = tick;
    if (whileRunning === undefined || blocking.length === 0) return [];
    return [{ tick, live: blocking, ...whileRunning }];
  });
  const heldTicks = new Set(held.map(({ tick }) => tick));
  return { live, held, starting: ticks.filter((tick) => !heldTicks.has(tick)) };
}

async function cancelRuns(
  store: StopStore,
  scope: Scope,
  held: readonly HeldTick[],
): Promise<void> {
  const requests = held.flatMap(({ live, cancel }) =>
    cancel === undefined ? [] : live.map((instanceId) => ({ instanceId, actor: null, ...cancel })),
  );
  if (requests.length > 0) await requestCancels(store, scope, requests);
}

/** Starts all runs of ticks, or throws. Returns the ids of the runs of each tick. */
async function startRuns(
  store: TaskTables,
  scope: Scope,
  { ticks, createInstances }: Ticks,
): Promise<readonly (readonly string[])[]> {
  const instances = ticks.flatMap((tick) => tick.instances);
  const tasks = ticks.flatMap((tick) => tick.tasks);
  const started = await createRuns(store, scope, { instances, tasks, createInstances });
  const ids = started.map(({ instanceId }) => instanceId);
  const [ofInstances, ofTasks] = [ids.slice(0, instances.length), ids.slice(instances.length)];
  return ticks.map((tick) => [
    ...ofInstances.splice(0, tick.instances.length),
    ...ofTasks.splice(0, tick.tasks.length),
  ]);
}

/** Starts runs, or throws. Returns the instances first. */
async function createRuns(
  store: TaskTables,
  scope: Scope,
  {
    instances,
    tasks,
    createInstances,
  }: Pick<ScheduledRuns, 'instances' | 'tasks'> & { readonly createInstances: CreateInstances },
): Promise<readonly ScheduledRun[]> {
  const created = instances.length === 0 ? [] : await createInstances(scope, instances);
  const ran = tasks.length === 0 ? [] : await createTasks(store, scope, tasks);
  return [
    ...instances.map((one, index) => startedRun(created[index], one)),
    ...tasks.map((one, index) => startedRun(ran[index], one)),
  ];
}

function startedRun(
  result: CreateResult | CreateTaskResult | undefined,
  { instanceId }: { readonly instanceId: string },
): ScheduledRun {
  if (result?.kind === 'refused') throw result.error;
  return {
    instanceId: result?.kind === 'active' ? result.instanceId : instanceId,
    created: result?.kind === 'created',
  };
}
