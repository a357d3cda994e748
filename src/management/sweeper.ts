import { hostname } from 'node:os';
import type { Clock } from '../model/clock.ts';
import type { Logger } from '../model/logger.ts';
import { randomToken } from '../model/values/random-id.ts';
import type { Provider } from '../providers/contract/provider.ts';
import type { ResolvedRetention } from './retention-policy.ts';
import { readRetention, writeRetention, type RetentionReport } from './retention-records.ts';
import { runSweep, type Interruption } from './sweep.ts';
import { platform } from '../model/platform.ts';

export interface SweeperParams {
  readonly store: Provider;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly retention: ResolvedRetention;
  /** Called after each sweep of this process. */
  readonly onSwept?: (report: RetentionReport) => void;
}

/**
 * Runs retention sweeps, one per interval and store. Each worker has a sweeper: the first one that finds a sweep due takes
 * the lease and runs it. A sweep that ended early is due again soon, for any worker.
 */
export class Sweeper {
  readonly #params: SweeperParams;
  /** A unique name in reports and leases: host, process id and a random token. */
  readonly #name = `${hostname()} ${process.pid} ${randomToken()}`;
  readonly #lease: SweepLease;
  readonly #stop = new AbortController();
  #ended: Promise<void> = Promise.resolve();

  constructor(params: SweeperParams) {
    this.#params = params;
    this.#lease = new SweepLease(params.store, params.clock, this.#name);
  }

  start(): void {
    this.#ended = this.#run();
  }

  /** Stops a running sweep after its current transaction. Idempotent. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#ended;
  }

  get #isStopped(): boolean {
    return this.#stop.signal.aborted;
  }

  async #run(): Promise<void> {
    // Spreads the queries of workers that start at the same time.
    await this.#wait(this.#jitter());
    while (!this.#isStopped) await this.#wait(await this.#runIfDue());
  }

  /** Runs a sweep if one is due. Returns how long to wait, in milliseconds. Never rejects. */
  async #runIfDue(): Promise<number> {
    const { logger } = this.#params;
    try {
      const dueInMs = await this.#dueInMs();
      if (dueInMs > 0) return dueInMs + this.#jitter();
      if (!(await this.#lease.take())) return sweepLeaseMs;
      try {
        return await this.#sweepWithLease();
      } finally {
        await this.#lease.release();
      }
    } catch (error) {
      if (!this.#isStopped) logger.error({ error }, 'retention failed; retrying');
      return this.#retryMs;
    }
  }

  async #sweepWithLease(): Promise<number> {
    const { store, clock, logger, retention } = this.#params;
    // Another worker may have swept between the query and the lease.
    const dueInMs = await this.#dueInMs();
    if (dueInMs > 0) return dueInMs + this.#jitter();
    if ((await readRetention(store, 'paused')) !== null) return this.#retryMs;
    await writeRetention(store, 'policies', retention.policies);
    const { rules, dryRun, intervalMs } = retention;
    const report = await runSweep({
      store,
      clock,
      rules,
      dryRun,
      sweeper: this.#name,
      signal: this.#stop.signal,
      interrupted: () => this.#lease.check(true),
    });
    this.#params.onSwept?.(report);
    // After a lost lease, its new holder writes the report.
    if (report.outcome !== 'lostLease') await writeRetention(store, 'lastReport', report);
    if (report.outcome === 'failed') logger.error({ report }, 'retention sweep failed');
    else logger.info({ report }, 'retention sweep ended');
    return report.outcome === 'done' ? intervalMs + this.#jitter() : this.#retryMs;
  }

  async #dueInMs(): Promise<number> {
    const { store, clock, logger, retention } = this.#params;
    const last = await readRetention(store, 'lastReport').catch((error: unknown) => {
      logger.warn({ error }, 'cannot read the last retention report');
      return null;
    });
    const dueInMs = last === null ? 0 : this.#nextAt(last) - clock.now();
    // Ignore a report from the future: the clock that wrote it was wrong.
    return dueInMs > 2 * retention.intervalMs ? 0 : dueInMs;
  }

  #nextAt({ startedAt, endedAt, outcome }: RetentionReport): number {
    return outcome === 'done'
      ? startedAt + this.#params.retention.intervalMs
      : endedAt + this.#retryMs;
  }

  /** The delay before the next attempt when a sweep did not complete: at most a minute. */
  get #retryMs(): number {
    return Math.min(this.#params.retention.intervalMs, sweepLeaseMs);
  }

  #jitter(): number {
    return Math.floor((platform.random() * this.#retryMs) / 10);
  }

  #wait(ms: number): Promise<void> {
    const { clock } = this.#params;
    const { signal } = this.#stop;
    return new Promise((resolve) => {
      if (signal.aborted) return resolve();
      const cancel = clock.setTimer(ms, done);
      signal.addEventListener('abort', done, { once: true });
      function done(): void {
        cancel();
        signal.removeEventListener('abort', done);
        resolve();
      }
    });
  }
}

/** The duration of the sweep lease: how long a crashed sweeper prevents other sweeps. */
const sweepLeaseMs = 60_000;

/** The lease that allows one process at a time to sweep a store. */
export class SweepLease {
  readonly #store: Provider;
  readonly #clock: Clock;
  readonly #owner: string;
  #renewAt = 0;

  constructor(store: Provider, clock: Clock, owner: string) {
    this.#store = store;
    this.#clock = clock;
    this.#owner = owner;
  }

  /** Takes or renews the lease. Resolves with `false` while another process holds it. */
  async take(): Promise<boolean> {
    this.#renewAt = this.#clock.monotonic() + sweepLeaseMs / 3;
    return this.#store.takeLease({ name, owner: this.#owner, leaseMs: sweepLeaseMs });
  }

  /** Renews the lease when needed. Returns why to stop sweeping, or `undefined` to continue. */
  async check(stopsOnPause: boolean): Promise<Interruption | undefined> {
    if (this.#clock.monotonic() >= this.#renewAt && !(await this.take())) return 'lostLease';
    if (stopsOnPause && (await readRetention(this.#store, 'paused')) !== null) return 'paused';
    return undefined;
  }

  async release(): Promise<void> {
    await this.#store.releaseLease({ name, owner: this.#owner });
  }
}

const name = 'retention';
