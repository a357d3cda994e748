import type { UnclaimedWorkStore } from '../../providers/contract/unclaimed-work.ts';
import type {
  WorkerDefinitions,
  WorkerRecord,
  WorkerSlots,
  WorkerStore,
} from '../../providers/contract/workers.ts';
import {
  definitionsOf,
  isLiveWorker,
  liveWorkers,
  minUnclaimedMs,
  missingDefinitions,
} from '../../providers/rules/workers.ts';
import { maxPageBytes, maxPageLimit } from './instance-list.ts';

/** A worker of the store. Times are those of the store's clock, in milliseconds since the Unix epoch. */
export interface WorkerInfo extends WorkerDefinitions {
  /** A random id. Names are not unique. */
  readonly id: string;
  /** The process that it belongs to. Workers of one process share it. */
  readonly processId?: string;
  readonly name: string;
  /**
   * `live`: seen within three heartbeats, by the store's clock. `stale`: it died, lost its connection or blocks its event
   * loop. A worker that stops is removed.
   */
  readonly status: 'live' | 'stale';
  readonly host: string;
  readonly pid: number;
  readonly buildId: string;
  readonly slots: WorkerSlots;
  /** Handlers that still run after their grace. */
  readonly leaked: number;
  readonly startedAt: number;
  readonly lastSeenAt: number;
  /** Time since `lastSeenAt` by the store's clock, in milliseconds. */
  readonly ageMs: number;
  /** The interval of its heartbeats, in milliseconds. */
  readonly heartbeatMs: number;
  /** When another process of its host detected that its process had died. */
  readonly diedAt?: number;
  /** Set if the definitions were left out, because the list would exceed 8 MiB. */
  readonly definitionsOmitted?: true;
}

/** A definition with due work that no live worker can run. */
export interface UnclaimedWorkInfo {
  readonly kind: 'orchestration' | 'activity' | 'task';
  readonly name: string;
  /** The version of an orchestration. Absent: none is chosen yet, and no live worker has any version. */
  readonly version?: string;
  /** How long its oldest entry has been due, in milliseconds. */
  readonly dueForMs: number;
}

const maxUnclaimed = 100;

/** Lists workers, the live ones first, at most 1,000. */
export async function listWorkers(
  store: Pick<WorkerStore, 'listWorkers'>,
): Promise<readonly WorkerInfo[]> {
  const { nowMs, workers } = await store.listWorkers();
  const live = workers.filter((worker) => isLiveWorker(worker, nowMs));
  const stale = workers.filter((worker) => !isLiveWorker(worker, nowMs));
  let bytes = 0;
  return [...live, ...stale].slice(0, maxPageLimit).map((worker) => {
    bytes += definitionBytes(worker);
    return toInfo(worker, nowMs, bytes <= maxPageBytes);
  });
}

/** Lists definitions with work that has been due for 10 s and that no live worker can run, at most 100. */
export async function findUnclaimedWork(
  store: UnclaimedWorkStore & Pick<WorkerStore, 'listWorkers'>,
): Promise<readonly UnclaimedWorkInfo[]> {
  const live = liveWorkers(await store.listWorkers());
  const work = await store.findUnclaimedWork({
    ...definitionsOf(live),
    minWaitMs: minUnclaimedMs,
    limit: maxUnclaimed,
  });
  return missingDefinitions(work).map(({ kind, name, version, dueForMs }) => ({
    kind,
    name,
    ...(version !== null && { version }),
    dueForMs,
  }));
}

function toInfo(worker: WorkerRecord, nowMs: number, withDefinitions: boolean): WorkerInfo {
  const { workerId, processId, diedAt, orchestrations, activities, tasks, ...others } = worker;
  const { attemptLimits: _limits, ...rest } = others;
  return {
    ...rest,
    id: workerId,
    ...(processId !== null && { processId }),
    status: isLiveWorker(worker, nowMs) ? 'live' : 'stale',
    ageMs: Math.max(0, nowMs - worker.lastSeenAt),
    ...(diedAt !== null && { diedAt }),
    ...(withDefinitions
      ? { orchestrations, activities, tasks }
      : { orchestrations: [], activities: [], tasks: [], definitionsOmitted: true }),
  };
}

// Counts characters: most names are ASCII, and the limit need not be exact.
function definitionBytes({ orchestrations, activities, tasks }: WorkerDefinitions): number {
  let bytes = 0;
  for (const { name, version } of orchestrations) bytes += name.length + version.length + 24;
  for (const name of activities) bytes += name.length + 3;
  for (const name of tasks) bytes += name.length + 3;
  return bytes;
}
