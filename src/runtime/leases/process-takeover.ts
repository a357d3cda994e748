import { systemClock, type Clock } from '../../model/clock.ts';
import type { Logger } from '../../model/logger.ts';
import { Rounds } from '../../model/periodic-loop.ts';
import type { ProcessRecord, ProcessStore } from '../../providers/contract/processes.ts';
import { hostProcesses, type HostProcesses } from './host-processes.ts';

export interface ProcessTakeoverParams {
  readonly store: ProcessStore;
  readonly logger: Logger;
  /** The longest lease of this worker's claims. */
  readonly leaseMs: number;
  /** Absent: this host, if it can tell who lives. */
  readonly host?: HostProcesses | undefined;
  /** Times the checks; the machine's own by default, because an injected clock may skip a month. */
  readonly clock?: Clock;
}

// Whether the others live costs a signal and a read of /proc for each: no statement.
const checkEveryMs = 1_000;
// Who the others are costs a statement. A process that starts asks at once, so a restart takes over at once.
const listEveryMs = 10_000;
const minListMs = 1_000;
// A registration that is a day old is dropped.
const registerEveryMs = 6 * 3_600_000;

/** The workers of this process that have registered it, by store. */
const registrations = new WeakMap<ProcessStore, Registration>();

interface Registration {
  readonly workers: number;
  /** The longest lease of all of them: a takeover searches no further. */
  readonly leaseMs: number;
}

/**
 * Takes over from processes of this host that died, long before their leases expire. Every worker registers its process in
 * the store and watches the others of its host; a process that cannot be judged is left to its leases.
 */
export class ProcessTakeover {
  readonly #params: ProcessTakeoverParams;
  readonly #host: HostProcesses | undefined;
  readonly #loop: Rounds;
  #others: readonly ProcessRecord[] = [];
  #registeredAt = Number.NEGATIVE_INFINITY;
  #listedAt = Number.NEGATIVE_INFINITY;
  #mayHaveChanged = false;
  #isCounted = false;

  constructor(params: ProcessTakeoverParams) {
    const { logger, clock = systemClock } = params;
    this.#params = params;
    this.#host = 'host' in params ? params.host : hostProcesses();
    this.#loop = new Rounds({
      clock,
      round: () => this.#check(),
      onError: (error) => logger.warn({ error }, 'watching other processes failed; trying again'),
    });
  }

  start(): void {
    if (this.#host !== undefined) this.#loop.start();
  }

  /** Another process has written: perhaps it registered. */
  changedElsewhere(): void {
    this.#mayHaveChanged = true;
  }

  /** Stops, and removes the process from the store if no other worker needs its entry. */
  async stop(): Promise<void> {
    if (this.#host === undefined) return;
    await this.#loop.stop();
    if (!this.#isCounted) return;
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
      logger.warn({ error }, 'removing the entry of this process failed; another one will do it');
    }
  }

  /** Does what is due; returns how long to sleep. */
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
    const workers = known.workers + (this.#isCounted ? 0 : 1);
    const leaseMs = Math.max(known.leaseMs, this.#params.leaseMs);
    registrations.set(store, { workers, leaseMs });
    this.#isCounted = true;
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
    // Those of which a lease could not be ended yet are still in the list.
    this.#listedAt = Number.NEGATIVE_INFINITY;
    this.#others = [];
    const pids = dead.map(({ pid }) => pid);
    logger.info({ pids, claims }, 'took over the claims of processes that died');
  }
}
