import { hostname } from 'node:os';
import type { Clock } from '../model/clock.ts';
import type { Logger } from '../model/logger.ts';
import { randomToken } from '../model/values/random-id.ts';
import type { Provider } from '../providers/contract/provider.ts';
import type { ResolvedRetention } from './retention-policy.ts';
import { readRetention, writeRetention, type RetentionReport } from './retention-records.ts';
import { runSweep, type Interruption } from './sweep.ts';

export interface SweeperParams {
  readonly store: Provider;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly retention: ResolvedRetention;
}

/**
 * Applies the policies of a store once in an interval, in whichever process comes first: whoever finds the last sweep
 * long enough ago takes the lease and sweeps. A sweep that ended early is taken up soon, by anybody.
 */
export class Sweeper {
  readonly #params: SweeperParams;
  /** Which machine and process, for reports and leases; unique. */
  readonly #name = `${hostname()} ${process.pid} ${randomToken()}`;
  readonly #lease: SweepLease;
  readonly #stop = new AbortController();
  #ended: Promise<void> = Promise.resolve();

  constructor(params: SweeperParams) {
    this.#params = params;
    this.#lease = new SweepLease(params.store, params.clock, this.#name);
  }

  /** Begins to look. */
  start(): void {
    this.#ended = this.#run();
  }

  /** Ends a sweep after the transaction that is under way. Idempotent. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#ended;
  }

  get #isStopped(): boolean {
    return this.#stop.signal.aborted;
  }

  async #run(): Promise<void> {
    // Workers that are deployed together should not all look at the same moment.
    await this.#wait(this.#jitter());
    while (!this.#isStopped) await this.#wait(await this.#look());
  }

  /** Sweeps if that is due; answers how long to wait before looking again, and never throws. */
  async #look(): Promise<number> {
    const { logger } = this.#params;
    try {
      const dueInMs = await this.#dueInMs();
      if (dueInMs > 0) return dueInMs + this.#jitter();
      if (!(await this.#lease.take())) return sweepLeaseMs;
      try {
        return await this.#sweepIfDue();
      } finally {
        await this.#lease.release();
      }
    } catch (error) {
      if (!this.#isStopped) logger.error({ error }, 'retention failed; trying again later');
      return this.#soonMs;
    }
  }

  async #sweepIfDue(): Promise<number> {
    const { store, clock, logger, retention } = this.#params;
    // Another may have swept between our look and our lease.
    const dueInMs = await this.#dueInMs();
    if (dueInMs > 0) return dueInMs + this.#jitter();
    if ((await readRetention(store, 'paused')) !== null) return this.#soonMs;
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
    // Whoever has the lease now writes a report of its own.
    if (report.outcome !== 'lostLease') await writeRetention(store, 'lastReport', report);
    if (report.outcome === 'failed') logger.error({ report }, 'a retention sweep failed');
    else logger.info({ report }, 'a retention sweep is over');
    return report.outcome === 'done' ? intervalMs + this.#jitter() : this.#soonMs;
  }

  async #dueInMs(): Promise<number> {
    const { store, clock, logger, retention } = this.#params;
    const last = await readRetention(store, 'lastReport').catch((error: unknown) => {
      logger.warn({ error }, 'the last retention report cannot be read');
      return null;
    });
    const dueInMs = last === null ? 0 : this.#nextAt(last) - clock.now();
    // A report from the future was written by a clock that was wrong: sweeps do not wait until its time has come.
    return dueInMs > 2 * retention.intervalMs ? 0 : dueInMs;
  }

  #nextAt({ startedAt, endedAt, outcome }: RetentionReport): number {
    return outcome === 'done'
      ? startedAt + this.#params.retention.intervalMs
      : endedAt + this.#soonMs;
  }

  /** What is looked at again before the interval is over is looked at once a minute. */
  get #soonMs(): number {
    return Math.min(this.#params.retention.intervalMs, sweepLeaseMs);
  }

  #jitter(): number {
    return Math.floor((Math.random() * this.#soonMs) / 10);
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

/** How long a sweeper that died keeps others from sweeping. */
export const sweepLeaseMs = 60_000;

/** The right to sweep, which one process of all has at a time. */
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

  /** Takes or extends it; `false` while another has it. */
  async take(): Promise<boolean> {
    this.#renewAt = this.#clock.monotonic() + sweepLeaseMs / 3;
    return this.#store.takeLease({ name, owner: this.#owner, leaseMs: sweepLeaseMs });
  }

  /** Extends it when it is time; says why to stop sweeping, if there is a reason. */
  async check(heedsPause: boolean): Promise<Interruption | undefined> {
    if (this.#clock.monotonic() >= this.#renewAt && !(await this.take())) return 'lostLease';
    if (heedsPause && (await readRetention(this.#store, 'paused')) !== null) return 'paused';
    return undefined;
  }

  /** Lets the next one have it. */
  async release(): Promise<void> {
    await this.#store.releaseLease({ name, owner: this.#owner });
  }
}

const name = 'retention';
