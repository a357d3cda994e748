import { systemClock, type Clock } from '../../model/clock.ts';
import type { Logger } from '../../model/logger.ts';
import { PeriodicLoop } from '../../model/periodic-loop.ts';
import type { ProcessRecord, ProcessStore } from '../../providers/contract/processes.ts';
import type { NewWorker, WorkerStore } from '../../providers/contract/workers.ts';
import { hostProcesses, type HostProcesses } from './host-processes.ts';

/** The part of a provider that registers processes and workers. */
export interface RegistrationStore extends ProcessStore, WorkerStore {
  /** The store's clock as known to this process. */
  readonly clock?: Clock;
}

/** A worker of this process, as its registration sees it. */
interface RegisteredWorker {
  readonly workerId: string;
  readonly heartbeatMs: number;
  /** The longest lease of its claims, in milliseconds. */
  readonly leaseMs: number;
  /** Describes the worker with its current numbers. */
  readonly describe: () => NewWorker;
}

export interface WorkerRegistrationParams {
  readonly store: RegistrationStore;
  readonly logger: Logger;
  readonly worker: RegisteredWorker;
  /** Absent: this host, if it has `/proc`. `null`: no process is checked. */
  readonly host?: HostProcesses | null | undefined;
  /** Clock of the checks. Default: the system clock, because an injected clock may skip a month. */
  readonly clock?: Clock;
}

// A check costs a signal and a read of `/proc` per process, and no statement.
const checkEveryMs = 1_000;
// Listing processes between two heartbeats costs a statement.
const minListMs = 1_000;
// A registration also deletes old rows, which a heartbeat does not.
const registerEveryMs = 3_600_000;

/** The registration of this process, by store. */
const registrations = new WeakMap<RegistrationStore, ProcessRegistration>();

/** Keeps a worker in the registry from `start` until `stop`. */
export class WorkerRegistration {
  readonly #params: WorkerRegistrationParams;
  #process: ProcessRegistration | undefined;

  constructor(params: WorkerRegistrationParams) {
    this.#params = params;
  }

  /** Registers the worker, without waiting. A failure is logged and retried. */
  start(): void {
    const { store } = this.#params;
    this.#process = registrations.get(store) ?? new ProcessRegistration(this.#params);
    registrations.set(store, this.#process);
    this.#process.add(this.#params.worker);
  }

  /** Call after another process committed a change: it may have registered. */
  changedElsewhere(): void {
    this.#process?.changedElsewhere();
  }

  /** Removes the worker from the registry, and the process with its last worker. */
  async stop(): Promise<void> {
    await this.#process?.remove(this.#params.worker);
    this.#process = undefined;
  }
}

/**
 * The registration of this process in one store. One heartbeat renews all its workers and returns the other processes of
 * the host. It takes over the claims of those that died, before their leases expire. A process that cannot be checked
 * keeps its claims until their leases expire.
 */
class ProcessRegistration {
  readonly #store: RegistrationStore;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #host: HostProcesses | undefined;
  readonly #loop: PeriodicLoop;
  readonly #workers = new Map<string, RegisteredWorker>();
  /** When each worker was last registered with all its values. Absent: it must be. */
  readonly #registeredAt = new Map<string, number>();
  #others: readonly ProcessRecord[] = [];
  #seenAt = Number.NEGATIVE_INFINITY;
  #seenAtStore = Number.NEGATIVE_INFINITY;
  #listedAt = Number.NEGATIVE_INFINITY;
  #mayHaveChanged = true;
  #lastStep: Promise<unknown> = Promise.resolve();

  constructor(params: WorkerRegistrationParams) {
    const { store, logger, clock = systemClock } = params;
    this.#store = store;
    this.#logger = logger;
    this.#clock = clock;
    this.#host = params.host === undefined ? hostProcesses() : (params.host ?? undefined);
    this.#loop = new PeriodicLoop({
      clock,
      round: () => this.#inTurn(() => this.#check()),
      onError: (error) => logger.warn({ error }, 'renewing this process failed, will retry'),
    });
  }

  add(worker: RegisteredWorker): void {
    this.#workers.set(worker.workerId, worker);
    if (this.#workers.size === 1) this.#loop.start();
    else this.#loop.wakeIn(0);
  }

  changedElsewhere(): void {
    this.#mayHaveChanged = true;
  }

  async remove({ workerId }: RegisteredWorker): Promise<void> {
    this.#workers.delete(workerId);
    const isLast = this.#workers.size === 0;
    if (isLast) {
      registrations.delete(this.#store);
      await this.#loop.stop();
    }
    try {
      await this.#inTurn(() => this.#unregister(workerId, isLast));
    } catch (error) {
      this.#logger.warn({ error, workerId }, 'unregistering a worker failed, it will become stale');
    }
  }

  /** Runs steps one after the other: a round must not register a worker that is being removed. */
  #inTurn<T>(step: () => Promise<T>): Promise<T> {
    const result = this.#lastStep.then(step);
    this.#lastStep = result.catch(() => undefined);
    return result;
  }

  async #unregister(workerId: string, isLast: boolean): Promise<void> {
    if (this.#registeredAt.delete(workerId)) await this.#store.unregisterWorkers([workerId]);
    // A worker may have started meanwhile, with a registration of its own.
    const isReplaced = registrations.has(this.#store);
    if (isLast && !isReplaced && this.#host !== undefined) await this.#store.unregisterProcess();
  }

  /** Runs the due steps. Returns how long to sleep, in milliseconds. */
  async #check(): Promise<number> {
    const workers = [...this.#workers.values()];
    if (workers.length === 0) return checkEveryMs;
    const heartbeatMs = Math.min(...workers.map((worker) => worker.heartbeatMs));
    await this.#registerIfDue(workers);
    await this.#renewIfDue(workers, heartbeatMs);
    const host = this.#host;
    if (host !== undefined) {
      await this.#listIfDue(host);
      const dead = this.#others.filter((other) => host.hasDied(other));
      if (dead.length > 0) await this.#takeOver(dead);
    }
    return Math.min(checkEveryMs, heartbeatMs);
  }

  async #registerIfDue(workers: readonly RegisteredWorker[]): Promise<void> {
    const now = this.#clock.monotonic();
    const isDue = ({ workerId }: RegisteredWorker): boolean =>
      now >= (this.#registeredAt.get(workerId) ?? Number.NEGATIVE_INFINITY) + registerEveryMs;
    const due = workers.filter(isDue);
    if (due.length === 0) return;
    if (this.#host !== undefined) {
      const { hostId, self } = this.#host;
      // The longest lease of all workers of this process bounds the search of a takeover.
      const leaseMs = Math.max(...workers.map((worker) => worker.leaseMs));
      await this.#store.registerProcess({ hostId, ...self, leaseMs });
    }
    // Set before the call: if its outcome is unknown, the worker must be removed when it stops.
    for (const { workerId } of due) this.#registeredAt.set(workerId, Number.NEGATIVE_INFINITY);
    await this.#store.registerWorkers(due.map((worker) => worker.describe()));
    for (const { workerId } of due) this.#registeredAt.set(workerId, now);
    if (due.length === workers.length) this.#seen(now);
  }

  async #renewIfDue(workers: readonly RegisteredWorker[], heartbeatMs: number): Promise<void> {
    const now = this.#clock.monotonic();
    // The store judges by its own clock, which a test may advance.
    const storeMs = (this.#store.clock?.now() ?? Number.NaN) - this.#seenAtStore;
    if (now < this.#seenAt + heartbeatMs && !(storeMs >= heartbeatMs)) return;
    this.#mayHaveChanged = false;
    const { unknown, processes } = await this.#store.renewWorkers({
      workers: workers.map((worker) => {
        const { workerId, slots, leaked } = worker.describe();
        return { workerId, inUse: slots.inUse, leaked };
      }),
      hostId: this.#host?.hostId ?? null,
    });
    this.#seen(now);
    this.#others = processes;
    this.#listedAt = now;
    for (const workerId of unknown) this.#registeredAt.set(workerId, Number.NEGATIVE_INFINITY);
    if (unknown.length > 0) await this.#registerIfDue(workers);
  }

  async #listIfDue({ hostId }: HostProcesses): Promise<void> {
    const now = this.#clock.monotonic();
    if (!this.#mayHaveChanged || now < this.#listedAt + minListMs) return;
    this.#mayHaveChanged = false;
    this.#others = await this.#store.listProcesses(hostId);
    this.#listedAt = now;
  }

  async #takeOver(dead: readonly ProcessRecord[]): Promise<void> {
    const claims = await this.#store.takeOverClaims(dead.map(({ processId }) => processId));
    // A process stays listed while one of its leases could not be ended.
    this.#listedAt = Number.NEGATIVE_INFINITY;
    this.#mayHaveChanged = true;
    this.#others = [];
    const pids = dead.map(({ pid }) => pid);
    this.#logger.info({ pids, claims }, 'took over claims of dead processes');
  }

  #seen(now: number): void {
    this.#seenAt = now;
    this.#seenAtStore = this.#store.clock?.now() ?? Number.NEGATIVE_INFINITY;
  }
}
