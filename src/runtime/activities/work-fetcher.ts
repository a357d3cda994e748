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
  /** The store will never answer again. */
  readonly onStoreReplaced: (error: PerdureError) => void;
}

const errorPauseMs = 200;
const flaggedBatch = 100;
// Given, so that no error with a stack is made each time.
const slotFreed = Symbol('a slot is free');
const noSlotLeft = Symbol('no slot is left');

interface Names {
  readonly names: readonly string[];
  readonly tasks: readonly string[];
}

/**
 * Fetches as much work as there are free slots. A task with bounds of its own has a loop of its own, so that no more
 * is claimed than may start, and others do not wait for it. While there is more to do than slots, one loop asks for
 * everything: priority decides then, and not which loop is the quickest.
 */
export class WorkFetcher {
  readonly #params: WorkFetcherParams;
  readonly #stopping = new AbortController();
  readonly #limiters: readonly TaskLimiter[];
  readonly #wakers = new Set<() => void>();
  /** Ends fetches that wait for work. */
  readonly #polls = new Set<() => void>();
  /** Handlers for failures that wait in the queue because of what failed here, by task. */
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

  /** Begins to fetch; also with nothing registered, because anyone may end an item that was asked to stop. */
  start(): void {
    const { handlers } = this.#params;
    const unbounded = { names: handlers.activityNames(), tasks: handlers.unboundedTasks() };
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

  /** A run failed here that has a handler for that: it is fetched also while its task may not run. */
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
        options.logger.warn({ error }, 'fetching work failed; trying again');
        await pause(clock, errorPauseMs, signal);
      }
    }
  }

  async #fetchUnbounded(unbounded: Names): Promise<void> {
    const { slots } = this.#params;
    // Handlers that end in the same turn of the event loop make room for one fetch, which then shares its transaction
    // with their acks.
    if (slots.free === 0) await nextTurn();
    if (slots.free === 0) await this.#fetchFlagged();
    else if (this.#isSaturated) await this.#fetchByPriority(unbounded);
    else await this.#poll({ max: slots.free, ...unbounded });
  }

  async #fetchLimited(limiter: TaskLimiter): Promise<void> {
    const { clock, slots } = this.#params;
    const max = Math.min(limiter.capacity(clock.monotonic()), slots.free);
    const tasks = [limiter.task];
    if (this.#isSaturated || slots.free === 0) await this.#untilWoken(undefined);
    else if (max > 0) await this.#poll({ max, names: [], tasks });
    else if (this.#queuedOnFails.has(limiter.task)) {
      // They have the highest priority; should a run come all the same, it is handed back.
      const failures = Math.min(this.#queuedOnFails.get(limiter.task) ?? 0, slots.free);
      this.#queuedOnFails.delete(limiter.task);
      const { signal } = this.#stopping;
      await this.#fetch({ max: failures, names: [], tasks, signal, waitMs: 0 });
    } else await this.#untilWoken(limiter.availableAt);
  }

  /** Takes what comes first of all that may start: no more than each bounded task has room for, then of the others. */
  async #fetchByPriority({ names, tasks }: Names): Promise<void> {
    const { clock, slots } = this.#params;
    const { signal } = this.#stopping;
    const nowMs = clock.monotonic();
    const open = this.#limiters.filter((limiter) => limiter.capacity(nowMs) >= 1);
    const max = Math.min(slots.free, ...open.map((limiter) => limiter.capacity(nowMs)));
    const all = [...tasks, ...open.map(({ task }) => task)];
    const count = await this.#fetch({ max, names, tasks: all, signal, waitMs: 0 });
    if (count < max) this.#leaveSaturation();
    else if (slots.free > 0) {
      await this.#fetch({ max: slots.free, names, tasks, signal, waitMs: 0 });
    }
  }

  /** There is nothing left to choose from: each loop waits for its own again. */
  #leaveSaturation(): void {
    this.#isSaturated = false;
    this.#wake();
  }

  /** Waits for work as long as there is a slot for it. */
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

  /** With no slot free there is still work that needs none: items of dead workers that were asked to stop. */
  async #fetchFlagged(): Promise<void> {
    const freed = new AbortController();
    const wake = (): void => freed.abort(slotFreed);
    this.#wakers.add(wake);
    try {
      await this.#fetch({ max: flaggedBatch, names: [], tasks: [], signal: freed.signal });
    } finally {
      this.#wakers.delete(wake);
    }
    await nextTurn();
  }

  /** Answers how many items there were. */
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

  /** Resolves when a slot is free, or at a monotonic time. */
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

function nextTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
