import { systemClock, type Clock } from '../../model/clock.ts';
import type { Logger } from '../../model/logger.ts';
import { PeriodicLoop } from '../../model/periodic-loop.ts';
import type { ProcessRecord, ProcessStore } from '../../providers/contract/processes.ts';
import { hostProcesses, type HostProcesses } from './host-processes.ts';

export interface ProcessTakeoverParams {
  readonly store: ProcessStore;
  readonly logger: Logger;
  /** The longest lease of this worker's claims, in milliseconds. */
  readonly leaseMs: number;
  /** Absent: this host, if it has `/proc`. */
  readonly host?: HostProcesses | undefined;
  /** Clock of the checks. Default: the system clock, because an injected clock may skip a month. */
  readonly clock?: Clock;
}

// A check costs a signal and a read of `/proc` per process, and no statement.
const checkEveryMs = 1_000;
// Listing costs a statement. A starting process lists immediately, so a restart takes over immediately.
const listEveryMs = 10_000;
const minListMs = 1_000;
// The store drops registrations after a day.
const registerEveryMs = 6 * 3_600_000;

/** The registration of this process, by store. */
const registrations = new WeakMap<ProcessStore, Registration>();

interface Registration {
  readonly workers: number;
  /** The longest lease of all workers of this process. It bounds the search of a takeover. */
  readonly leaseMs: number;
}

/**
 * Takes over the claims of dead processes on this host before their leases expire. Each worker registers its process
 * in the store and checks the others. A process that cannot be checked keeps its claims until their leases expire.
 */
export class ProcessTakeover {
  readonly #params: ProcessTakeoverParams;
  readonly #host: HostProcesses | undefined;
  readonly #loop: PeriodicLoop;
  #others: readonly ProcessRecord[] = [];
  #registeredAt = Number.NEGATIVE_INFINITY;
  #listedAt = Number.NEGATIVE_INFINITY;
  #mayHaveChanged = false;
  #isRegistered = false;

  constructor(params: ProcessTakeoverParams) {
    const { logger, clock = systemClock } = params;
    this.#params = params;
    this.#host = 'host' in params ? params.host : hostProcesses();
    this.#loop = new PeriodicLoop({
      clock,
      round: () => this.#check(),
      onError: (error) => logger.warn({ error }, 'checking other processes failed, will retry'),
    });
  }

  start(): void {
    if (this.#host !== undefined) this.#loop.start();
  }

  /** Call after another process committed a change: it may have registered. */
  changedElsewhere(): void {
    this.#mayHaveChanged = true;
  }

  /** Stops, and unregisters the process if this is its last worker. */
  async stop(): Promise<void> {
    if (this.#host === undefined) return;
    await this.#loop.stop();
    if (!this.#isRegistered) return;
    const { store, logger } = this.#params;
    const { workers = 1, leaseMs = 0 } = registrations.get(store) ?? {};
    if (workers > 1) {
      registrations.set(store, { workers: workers - 1, leaseMs });
      return;
    }
    registrations.delete(store);
    try {
      await store.unregisterProcess();
    } catch (error) {
      logger.warn({ error }, 'unregistering this process failed, another process will do it');
    }
  }

  /** Runs the due steps. Returns how long to sleep, in milliseconds. */
  async #check(): Promise<number> {
    const host = this.#host;
    if (host === undefined) return Infinity;
    await this.#registerIfDue(host);
    await this.#listIfDue(host);
    const dead = this.#others.filter((other) => host.hasDied(other));
    if (dead.length > 0) await this.#takeOver(dead);
    return checkEveryMs;
  }

  async #registerIfDue({ hostId, self }: HostProcesses): Promise<void> {
    const { store } = this.#params;
    const now = performance.now();
    if (now < this.#registeredAt + registerEveryMs) return;
    const known = registrations.get(store) ?? { workers: 0, leaseMs: 0 };
    const workers = known.workers + (this.#isRegistered ? 0 : 1);
    const leaseMs = Math.max(known.leaseMs, this.#params.leaseMs);
    registrations.set(store, { workers, leaseMs });
    this.#isRegistered = true;
    await store.registerProcess({ hostId, ...self, leaseMs });
    this.#registeredAt = now;
  }

  async #listIfDue({ hostId }: HostProcesses): Promise<void> {
    const now = performance.now();
    if (now < this.#listedAt + (this.#mayHaveChanged ? minListMs : listEveryMs)) return;
    this.#mayHaveChanged = false;
    this.#others = await this.#params.store.listProcesses(hostId);
    this.#listedAt = now;
  }

  async #takeOver(dead: readonly ProcessRecord[]): Promise<void> {
    const { store, logger } = this.#params;
    const claims = await store.takeOverClaims(dead.map(({ processId }) => processId));
    // A process stays listed while one of its leases could not be ended.
    this.#listedAt = Number.NEGATIVE_INFINITY;
    this.#others = [];
    const pids = dead.map(({ pid }) => pid);
    logger.info({ pids, claims }, 'took over claims of dead processes');
  }
}
