import { codeOf, taskActivityName } from '../../model/task-call.ts';
import type { FindUnclaimedWorkParams, UnclaimedWork } from '../contract/unclaimed-work.ts';
import type { WorkerDefinitions, WorkerList, WorkerRecord } from '../contract/workers.ts';

/** The default interval of heartbeats, in milliseconds. */
export const defaultHeartbeatMs = 10_000;
/** A worker is live if it was seen within this many of its heartbeats. */
export const liveHeartbeats = 3;
/** How long workers that were not seen are listed, in milliseconds. */
export const keepWorkersMs = 86_400_000;
/** Maximum stale workers that are kept. */
export const maxStaleWorkers = 1_000;

/** Minimum time that work is due before it counts as unclaimed. A live worker claims it sooner. */
export const minUnclaimedMs = 10_000;

/** A definition that may need a worker. `version: null`: any version of an orchestration. */
export interface WantedDefinition {
  readonly kind: 'orchestration' | 'activity' | 'task';
  readonly name: string;
  readonly version: string | null;
}

/** Whether a worker is live at this time of the store's clock. */
export function isLiveWorker(
  { lastSeenAt, heartbeatMs, diedAt }: Pick<WorkerRecord, 'lastSeenAt' | 'heartbeatMs' | 'diedAt'>,
  nowMs: number,
): boolean {
  return diedAt === null && nowMs - lastSeenAt <= liveHeartbeats * heartbeatMs;
}

/** Returns the workers of a list that are live. */
export function liveWorkers({ nowMs, workers }: WorkerList): readonly WorkerRecord[] {
  return workers.filter((worker) => isLiveWorker(worker, nowMs));
}

/** Whether one of the workers has a definition. Pass only live workers. */
export function canRun(workers: readonly WorkerDefinitions[], wanted: WantedDefinition): boolean {
  const { kind, name, version } = wanted;
  return workers.some(({ orchestrations, activities, tasks }) => {
    if (kind === 'activity') {
      return activities.includes(name) || tasks.some((task) => taskActivityName(task) === name);
    }
    if (kind === 'task') return tasks.includes(name);
    return orchestrations.some(
      (one) => one.name === name && (version === null || one.version === version),
    );
  });
}

/** Returns the distinct definitions of workers, as the parameters of `findUnclaimedWork`. */
export function definitionsOf(
  workers: readonly WorkerDefinitions[],
): Pick<FindUnclaimedWorkParams, 'runnable' | 'activities' | 'tasks'> {
  const versions = new Map<string, Set<string>>();
  for (const { name, version } of workers.flatMap(({ orchestrations }) => orchestrations)) {
    const known = versions.get(name) ?? new Set();
    versions.set(name, known.add(version));
  }
  return {
    // An instance without a version can run on any worker that has its name.
    runnable: [...versions].flatMap(([name, known]) => [
      { name, version: null },
      ...[...known].map((version) => ({ name, version })),
    ]),
    activities: [
      ...new Set(
        workers.flatMap(({ activities, tasks }) => [...activities, ...tasks.map(taskActivityName)]),
      ),
    ],
    tasks: [...new Set(workers.flatMap(({ tasks }) => tasks))],
  };
}

/** The definitions that a worker must have to run this work. Calls of a task wait with its runs: the longer wait counts. */
export function missingDefinitions(work: readonly UnclaimedWork[]): readonly UnclaimedWork[] {
  const missing = new Map<string, UnclaimedWork>();
  for (const one of work) {
    const { kind, name } = one.kind === 'orchestration' ? one : codeOf({ ...one, kind: one.kind });
    const key = JSON.stringify([kind, name, one.version]);
    const dueForMs = Math.max(one.dueForMs, missing.get(key)?.dueForMs ?? 0);
    missing.set(key, { kind, name, version: one.version, dueForMs });
  }
  return [...missing.values()];
}
