import { setImmediate } from 'node:timers';
import type { Clock } from '../../model/clock.ts';
import { isPerdureError, type PerdureError } from '../../model/failures/errors.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import { claimedSince } from '../leases/leases.ts';
import type { ResolvedOptions } from '../options.ts';
import { pause } from '../maintenance/provider-retry.ts';
import type { Slots, TaskLimiter } from './concurrency.ts';
import type { WorkHandlers } from './work-handlers.ts';

export interface WorkFetcherParams {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly options: ResolvedOptions;
  readonly slots: Slots;
  readonly handlers: WorkHandlers;
  readonly take: (item: WorkItem, claimedAt: number) => void;
  /** Called when the database file was replaced: no later call can succeed. */
  readonly onStoreReplaced: (error: PerdureError) => void;
}

const errorPauseMs = 200;
const flaggedBatch = 100;
// Abort reasons. Symbols, because a default reason would create an error with a stack each time.
const slotFreed = Symbol('slot freed');
const noSlotLeft = Symbol('no free slot');

interface Names {
  readonly names: readonly string[];
  readonly tasks: readonly string[];
}

/**
 * Fetches as much work as there are free slots. A task with a limiter has its own loop, so that no more is claimed
 * than may start and other tasks do not wait for it. While the slots are saturated, one loop fetches for all of them:
 * then priority decides, not the fastest loop.
 */
export class WorkFetcher {
  readonly #params: WorkFetcherParams;
  readonly #stopping = new AbortController();
  readonly #limiters: readonly TaskLimiter[];
  readonly #wakers = new Set<() => void>();
  /** Aborts the fetches that wait for work. */
  readonly #polls = new Set<() => void>();
  /** Number of `onFail` items queued by failures of this worker, by task. */
  readonly #queuedOnFails = new Map<string, number>();
  #isSaturated = false;
  #loops: readonly Promise<void>[] = [];

  constructor(params: WorkFetcherParams) {
    this.#params = params;
    this.#limiters = params.handlers.limiters();
    params.slots.onFree(() => this.#wake());
  }

  get isStopping(): boolean {
    return this.#stopping.signal.aborted;
  }

  /** Starts fetching. Also without registered work: any worker may ack an item that was canceled. */
  start(): void {
    const { handlers } = this.#params;
    const unbounded = { names: handlers.unboundedActivities(), tasks: handlers.unboundedTasks() };
    this.#loops = [
      this.#repeat(() => this.#fetchUnbounded(unbounded)),
      ...this.#limiters.map((limiter) => this.#repeat(() => this.#fetchLimited(limiter))),
    ];
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#wake();
    this.#endPolls();
    await Promise.all(this.#loops);
  }

  /** Announces a queued `onFail` item. It is fetched even while its task has no capacity. */
  expectOnFail(task: string): void {
    if (!this.#limiters.some((limiter) => limiter.task === task)) return;
    this.#queuedOnFails.set(task, (this.#queuedOnFails.get(task) ?? 0) + 1);
    this.#wake();
  }

  async #repeat(fetchOnce: () => Promise<void>): Promise<void> {
    const { clock, options, onStoreReplaced } = this.#params;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        await fetchOnce();
      } catch (error) {
        if (signal.aborted) return;
        if (isPerdureError(error, 'STORE_REPLACED')) {
          onStoreReplaced(error);
          return;
        }
        options.logger.warn({ error }, 'fetching work failed, will retry');
        await pause(clock, errorPauseMs, signal);
      }
    }
  }

  async #fetchUnbounded(unbounded: Names): Promise<void> {
    const { slots } = this.#params;
    // Handlers that end in the same event loop iteration free slots for one fetch, which shares a transaction with
    // their acks.
    if (slots.free === 0) await nextIteration();
    // `stop()` ends only fetches that have started. A later one would wait for the whole poll interval.
    if (this.isStopping) return;
    if (slots.free === 0) await this.#fetchFlagged();
    else if (this.#isSaturated) await this.#fetchByPriority(unbounded);
    else await this.#poll({ max: slots.free, ...unbounded });
  }

  async #fetchLimited(limiter: TaskLimiter): Promise<void> {
    const { clock, slots } = this.#params;
    const max = Math.min(limiter.capacity(clock.monotonic()), slots.free);
    const tasks = [limiter.task];
    const names = [limiter.activity];
    if (this.#isSaturated || slots.free === 0) await this.#untilWoken(undefined);
    else if (max > 0) await this.#poll({ max, names, tasks });
    else if (this.#queuedOnFails.has(limiter.task)) {
      // `onFail` items have the highest priority. If a run is claimed instead, it is released.
      const failures = Math.min(this.#queuedOnFails.get(limiter.task) ?? 0, slots.free);
      this.#queuedOnFails.delete(limiter.task);
      const { signal } = this.#stopping;
      await this.#fetch({ max: failures, names: [], tasks, signal, waitMs: 0 });
    } else await this.#untilWoken(limiter.availableAt);
  }

  /** Fetches by priority. No limited task gets more than its capacity; the other work fills the remaining slots. */
  async #fetchByPriority({ names, tasks }: Names): Promise<void> {
    const { clock, slots } = this.#params;
    const { signal } = this.#stopping;
    const nowMs = clock.monotonic();
    const open = this.#limiters.filter((limiter) => limiter.capacity(nowMs) >= 1);
    const max = Math.min(slots.free, ...open.map((limiter) => limiter.capacity(nowMs)));
    const all = {
      names: [...names, ...open.map(({ activity }) => activity)],
      tasks: [...tasks, ...open.map(({ task }) => task)],
    };
    const count = await this.#fetch({ max, ...all, signal, waitMs: 0 });
    if (count < max) this.#leaveSaturation();
    else if (slots.free > 0) {
      await this.#fetch({ max: slots.free, names, tasks, signal, waitMs: 0 });
    }
  }

  /** The queue is drained: each loop fetches its own work again. */
  #leaveSaturation(): void {
    this.#isSaturated = false;
    this.#wake();
  }

  /** Waits for work while there is a free slot. */
  async #poll(params: Names & { readonly max: number }): Promise<void> {
    const { signal } = this.#stopping;
    if (this.#limiters.length === 0) await this.#fetch({ ...params, signal });
    else {
      const saturated = new AbortController();
      const end = (): void => saturated.abort(noSlotLeft);
      this.#polls.add(end);
      try {
        await this.#fetch({ ...params, signal: saturated.signal });
      } finally {
        this.#polls.delete(end);
      }
    }
  }

  /** Without a free slot, fetches only canceled items of dead workers. Acking them needs no slot. */
  async #fetchFlagged(): Promise<void> {
    const freed = new AbortController();
    const wake = (): void => freed.abort(slotFreed);
    this.#wakers.add(wake);
    try {
      await this.#fetch({ max: flaggedBatch, names: [], tasks: [], signal: freed.signal });
    } finally {
      this.#wakers.delete(wake);
    }
    await nextIteration();
  }

  /** Returns the number of items. */
  async #fetch(
    params: Names & {
      readonly max: number;
      readonly signal: AbortSignal;
      readonly waitMs?: number;
    },
  ): Promise<number> {
    const { provider, clock, options, slots, take } = this.#params;
    const askedAt = clock.monotonic();
    const items = await provider.fetchWorkItems({
      waitMs: options.pollIntervalMs,
      ...params,
      lockMs: options.activityLeaseMs,
      worker: options.name,
    });
    for (const item of items) take(item, claimedSince(clock, item.nowMs, askedAt));
    if (slots.free === 0 && this.#limiters.length > 0) {
      this.#isSaturated = true;
      this.#endPolls();
    }
    return items.length;
  }

  /** Resolves when a slot is free, or at the monotonic time `atMs`. */
  #untilWoken(atMs: number | undefined): Promise<void> {
    return new Promise((resolve) => {
      let cancelAlarm: (() => void) | undefined;
      const wake = (): void => {
        this.#wakers.delete(wake);
        cancelAlarm?.();
        resolve();
      };
      this.#wakers.add(wake);
      const { clock } = this.#params;
      if (atMs !== undefined) {
        cancelAlarm = clock.setTimer(Math.max(0, atMs - clock.monotonic()), wake);
      }
    });
  }

  #wake(): void {
    for (const wake of this.#wakers) wake();
  }

  #endPolls(): void {
    for (const end of this.#polls) end();
  }
}

function nextIteration(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
