import { systemClock, type Clock } from '../../model/clock.ts';
import type { Logger } from '../../model/logger.ts';
import { PeriodicLoop } from '../../model/periodic-loop.ts';
import { randomToken } from '../../model/values/random-id.ts';
import type { ManagementStore, QueueDepth } from '../../providers/contract/management.ts';
import type {
  SeriesBatch,
  SeriesDepth,
  SeriesRow,
  SeriesStore,
} from '../../providers/contract/series.ts';
import {
  mergeSeries,
  minuteMs,
  noCounts,
  toStopRows,
  totalName,
} from '../../providers/rules/series.ts';
import type { SeriesCounters } from './series-counters.ts';

type Store = SeriesStore & Pick<ManagementStore, 'takeLease' | 'releaseLease' | 'queueDepths'>;

export interface SeriesWriterParams {
  readonly store: Store;
  /** The store's clock, which decides the minute. */
  readonly clock: Clock;
  readonly logger: Logger;
  readonly series: SeriesCounters;
  /** How long rows are kept. */
  readonly keepMs: number;
  /** Clock of the interval. Default: the system clock, because an injected clock may skip a month. */
  readonly timer?: Clock;
}

// A round without a due write costs no statement.
const checkEveryMs = 1_000;
// Longer than the interval, so that the process that samples the queues keeps the lease.
const leaseMs = 2.5 * minuteMs;
const leaseName = 'series';
// Deletes of one round, so that a shorter retention takes effect within minutes and no transaction is long.
const maxSwept = 1_000;
const maxSweeps = 50;
// Stops of these last minutes are counted again, because a transaction may commit after its minute.
const recountMs = 2 * minuteMs;
// The first count of a process includes stops in the time without a worker.
const firstCountMs = 86_400_000;
const countMs = 60 * minuteMs;
const writeMs = 10 * minuteMs;

/** The writer of this process, by store. */
const writers = new WeakMap<Store, ProcessWriter>();

/** Writes the counts of a worker with those of the other workers of its process, from `start` until `stop`. */
export class SeriesWriter {
  readonly #params: SeriesWriterParams;
  #process: ProcessWriter | undefined;

  constructor(params: SeriesWriterParams) {
    this.#params = params;
  }

  start(): void {
    const { store, series } = this.#params;
    this.#process = writers.get(store) ?? new ProcessWriter(this.#params);
    writers.set(store, this.#process);
    this.#process.add(series);
  }

  /** Writes the counts that are left. Never rejects. */
  async stop(): Promise<void> {
    const { store, series } = this.#params;
    const process = this.#process;
    this.#process = undefined;
    if (process === undefined) return;
    const isLast = process.remove(series);
    if (isLast) writers.delete(store);
    await process.flush(isLast);
  }
}

/**
 * Writes the counts of this process to one store, in one batch a minute. One elected process also samples the queues
 * and deletes old rows.
 */
class ProcessWriter {
  readonly #params: SeriesWriterParams;
  readonly #timer: Clock;
  readonly #loop: PeriodicLoop;
  readonly #workers = new Set<SeriesCounters>();
  readonly #writerId = randomToken();
  /** Counts of workers that have stopped. */
  #left: readonly SeriesRow[] = [];
  /** A batch whose write failed. It may have been applied, so only its repetition is safe. */
  #pending: SeriesBatch | undefined;
  #lastNumber = 0;
  #writtenAt: number;
  #writtenAtStore: number;
  #holdsLease = false;
  /** Stops before this minute are counted. */
  #countedTo = Number.NEGATIVE_INFINITY;
  #lastStep: Promise<unknown> = Promise.resolve();

  constructor(params: SeriesWriterParams) {
    const { clock, logger, timer = systemClock } = params;
    this.#params = params;
    this.#timer = timer;
    this.#writtenAt = timer.monotonic();
    this.#writtenAtStore = clock.now();
    this.#loop = new PeriodicLoop({
      clock: timer,
      round: () => this.#inTurn(() => this.#writeIfDue()),
      onError: (error) => logger.warn({ error }, 'writing the minute series failed, will retry'),
    });
  }

  add(series: SeriesCounters): void {
    this.#workers.add(series);
    if (this.#workers.size === 1) this.#loop.start();
  }

  /** Keeps the counts of a stopped worker for the next batch. Returns whether it was the last worker. */
  remove(series: SeriesCounters): boolean {
    this.#workers.delete(series);
    this.#left = [...this.#left, ...series.take()];
    return this.#workers.size === 0;
  }

  /** With `isLast`: stops the loop and writes all counts. */
  async flush(isLast: boolean): Promise<void> {
    if (!isLast) return;
    await this.#loop.stop();
    const { store, logger } = this.#params;
    try {
      await this.#inTurn(async () => {
        await this.#write([]);
        await this.#writeStops(recountMs);
        if (this.#holdsLease) await store.releaseLease({ name: leaseName, owner: this.#writerId });
      });
    } catch (error) {
      logger.warn({ error }, 'writing the last counts of the minute series failed');
    }
  }

  /** Runs steps one after the other: two writes must not share a batch number. */
  #inTurn<T>(step: () => Promise<T>): Promise<T> {
    const result = this.#lastStep.then(step);
    this.#lastStep = result.catch(() => undefined);
    return result;
  }

  /** Writes once a minute of either clock. Returns how long to sleep, in milliseconds. */
  async #writeIfDue(): Promise<number> {
    const { clock } = this.#params;
    const now = this.#timer.monotonic();
    const storeNow = clock.now();
    const isDue = now >= this.#writtenAt + minuteMs || storeNow >= this.#writtenAtStore + minuteMs;
    if (!isDue) return checkEveryMs;
    // Set before the write: a failed batch is retried with the next one, not every second.
    this.#writtenAt = now;
    this.#writtenAtStore = storeNow;
    await this.#lead();
    return checkEveryMs;
  }

  /** Writes the counts. The process that holds the lease adds the depths, and sweeps. */
  async #lead(): Promise<void> {
    const { store, clock, keepMs } = this.#params;
    const lease = { name: leaseName, owner: this.#writerId, leaseMs };
    this.#holdsLease = await store.takeLease(lease);
    await this.#write(this.#holdsLease ? [await this.#sampleDepths()] : []);
    if (!this.#holdsLease) return;
    await this.#writeStops(firstCountMs);
    const before = Math.floor(clock.now()) - keepMs;
    for (let sweep = 0; sweep < maxSweeps; sweep += 1) {
      if ((await store.sweepSeries({ before, limit: maxSwept })) < maxSwept) return;
    }
  }

  /**
   * Counts the instances that were stopped since the last count, at most `maxMs` ago. Cancels, terminations and expiries
   * need no worker, so no worker can count them in memory. A repeated count changes nothing.
   */
  async #writeStops(maxMs: number): Promise<void> {
    const { store, clock } = this.#params;
    const end = Math.floor(clock.now() / minuteMs) * minuteMs + minuteMs;
    const first = Math.max(end - minuteMs - maxMs, this.#countedTo - recountMs);
    for (let from = first; from < end; from += countMs) {
      const before = Math.min(from + countMs, end);
      const rows = toStopRows(await store.countStops({ from, before }));
      for (let start = from; start < before; start += writeMs) {
        const part = rows.filter(({ minute }) => minute >= start && minute < start + writeMs);
        if (part.length > 0) await this.#write(part);
      }
    }
    this.#countedTo = end;
  }

  async #write(sampled: readonly SeriesRow[]): Promise<void> {
    const { store } = this.#params;
    if (this.#pending !== undefined) {
      await store.writeSeries(this.#pending);
      this.#pending = undefined;
    }
    const counted = [...this.#workers].flatMap((series) => series.take());
    const rows = mergeSeries([], [...this.#left, ...counted, ...sampled]);
    this.#left = [];
    if (rows.length === 0) return;
    this.#lastNumber += 1;
    this.#pending = { writerId: this.#writerId, number: this.#lastNumber, rows };
    await store.writeSeries(this.#pending);
    this.#pending = undefined;
  }

  async #sampleDepths(): Promise<SeriesRow> {
    const { store, clock } = this.#params;
    const { orchestrations, activities, tasks } = await store.queueDepths();
    const now = clock.now();
    const depths = {
      orchestrations: toDepth(orchestrations, now),
      activities: toDepth(activities, now),
      tasks: toDepth(tasks, now),
    };
    const minute = Math.floor(now / minuteMs) * minuteMs;
    return { minute, name: totalName, counts: noCounts(), depths };
  }
}

function toDepth({ ready, delayed, claimed, oldestReadyAt }: QueueDepth, now: number): SeriesDepth {
  const oldestMs = oldestReadyAt === null ? null : Math.max(0, Math.round(now - oldestReadyAt));
  return { ready, delayed, claimed, oldestMs };
}
