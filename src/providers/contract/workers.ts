import type { ProcessRecord } from './processes.ts';

/** The definitions that a worker can run. */
export interface WorkerDefinitions {
  readonly orchestrations: readonly { readonly name: string; readonly version: string }[];
  readonly activities: readonly string[];
  readonly tasks: readonly string[];
}

/** The maximum of attempts of a definition that a worker has. */
export interface AttemptLimit {
  readonly kind: 'activity' | 'task' | 'onFail';
  readonly name: string;
  readonly maxAttempts: number;
}

/** The capacity of a worker. */
export interface WorkerSlots {
  /** Maximum concurrent activities and tasks. */
  readonly activities: number;
  /** Maximum instances claimed in one fetch. */
  readonly orchestrations: number;
  /** Activities and tasks that run now. */
  readonly inUse: number;
}

interface WorkerDescription extends WorkerDefinitions {
  /** A random id, chosen when the worker starts. */
  readonly workerId: string;
  /** The name that operators see. Several workers may have the same. */
  readonly name: string;
  /** The host name. Several hosts may have the same. */
  readonly host: string;
  readonly pid: number;
  readonly buildId: string;
  readonly slots: WorkerSlots;
  /** Handlers that still run after their grace. */
  readonly leaked: number;
  /** The interval of its heartbeats, in milliseconds. */
  readonly heartbeatMs: number;
  /** The maximum of attempts of each activity and task that is retried and has one. */
  readonly attemptLimits: readonly AttemptLimit[];
}

/** A worker to register. */
export interface NewWorker extends WorkerDescription {
  /** How long it has run, in milliseconds. A duration, because clocks of hosts differ. */
  readonly runningMs: number;
}

/** The changing part of a registration. */
export interface WorkerHeartbeat {
  readonly workerId: string;
  readonly inUse: number;
  readonly leaked: number;
}

/** A registered worker. All times are those of the store's clock. */
export interface WorkerRecord extends WorkerDescription {
  /** The process that it belongs to, if the store knows it. */
  readonly processId: string | null;
  readonly startedAt: number;
  /** Its last heartbeat. */
  readonly lastSeenAt: number;
  /** When another process of its host detected that its process had died. */
  readonly diedAt: number | null;
}

/** The registered workers and the time of the store's clock at which they were read. */
export interface WorkerList {
  readonly nowMs: number;
  readonly workers: readonly WorkerRecord[];
}

/** The result of a heartbeat. */
export interface HeartbeatResult {
  /** Workers that must register again: the store has no row of them, or of their process. */
  readonly unknown: readonly string[];
  /** The other processes of the host, as `listProcesses` returns them. */
  readonly processes: readonly ProcessRecord[];
}

/** The registry of workers. `isLiveWorker` in `providers/rules/workers.ts` computes their status from `lastSeenAt`. */
export interface WorkerStore {
  /**
   * Registers workers of this provider's process, or replaces their registrations.
   *
   * A provider must:
   * - list them with all values, seen now, and started `runningMs` ago (worker/is-listed-with-its-values)
   * - take all times from its own clock, never from the worker's (worker/times-are-those-of-the-store)
   * - keep workers with equal names and hosts apart (worker/equal-names-are-two-workers)
   * - return names and definitions with any characters unchanged (worker/names-are-only-text)
   * - delete workers that were not seen for a day (worker/is-forgotten-after-a-day)
   * - keep the 1,000 stale workers that were seen last, and every live one (worker/stale-workers-are-bounded)
   */
  registerWorkers(workers: readonly NewWorker[]): Promise<void>;

  /**
   * Records a heartbeat of workers, and returns the other processes of their host, in one small write.
   *
   * A provider must:
   * - set the time of the last heartbeat and the numbers of these workers only (worker/a-heartbeat-is-recorded)
   * - return the ids of workers that are not registered, and register nothing (worker/unknown-workers-are-returned)
   * - return all ids if `hostId` is given and this provider's process is not registered
   *   (worker/a-lost-process-is-returned)
   * - return the other processes with this `hostId`, none for `null` (worker/a-heartbeat-lists-processes)
   * - make a worker live again whose process was taken over by mistake (worker/a-heartbeat-revives)
   */
  renewWorkers(params: {
    readonly workers: readonly WorkerHeartbeat[];
    /** The host of this process. `null`: its processes cannot be checked. */
    readonly hostId: string | null;
  }): Promise<HeartbeatResult>;

  /**
   * Removes workers of this provider's process.
   *
   * A provider must:
   * - remove them immediately, and no worker of another process (worker/leaves-at-once, worker/removes-only-its-own)
   */
  unregisterWorkers(workerIds: readonly string[]): Promise<void>;

  /**
   * Lists all workers that were seen within a day.
   *
   * A provider must:
   * - return the time of its clock at the read, so that the age of a heartbeat does not depend on the caller's clock
   *   (worker/age-is-that-of-the-store)
   * - list stale workers too, with their last heartbeat (worker/a-silent-worker-becomes-stale)
   * - list workers of a process that was taken over as dead (worker/a-takeover-marks-the-dead)
   * - order them by name and id (worker/is-listed-in-order)
   */
  listWorkers(): Promise<WorkerList>;
}
