import type { Clock } from '../../model/clock.ts';
import { isPerdureError, type PerdureError } from '../../model/failures/errors.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import { claimedSince } from '../leases/leases.ts';
import type { ResolvedOptions } from '../options.ts';
import { pause } from '../maintenance/provider-retry.ts';
import type { ClaimsAhead } from './claims-ahead.ts';
import type { Slots } from './concurrency.ts';
import type { WorkHandlers } from './work-handlers.ts';
import type { WorkSource } from './work-source.ts';
import { nextIteration } from '../../model/platform.ts';

export interface WorkFetcherParams {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly options: ResolvedOptions;
  readonly slots: Slots;
  readonly ahead: ClaimsAhead;
  readonly handlers: WorkHandlers;
  /** Tasks that are handled in batches. */
  readonly batches: readonly WorkSource[];
  readonly take: (item: WorkItem, claimedAt: number) => void;
  /** Called when the database file was replaced: no later call can succeed. */
  readonly onStoreReplaced: (error: PerdureError) => void;
}

const errorPauseMs = 200;
const flaggedBatch = 100;
// Maximum delay for flagged items of dead workers, while handlers end within milliseconds.
const aheadPauseMs = 50;
// After a claim that limits counted, none is made ahead for that long: an operator may have set the limits.
const limitedPauseMs = 10_000;
// Abort reasons. Symbols, because a default reason would create an error with a stack each time.
const slotFreed = Symbol('slot freed');
const noSlotLeft = Symbol('no free slot');

interface Names {
  readonly names: readonly string[];
  readonly tasks: readonly string[];
}

/**
 * Fetches as much work as there are free slots. A task with a limiter or with batches has its own loop: it claims no more
 * than may start, and other tasks do not wait for it. While the slots are saturated, one loop fetches for all of them:
 * then priority decides, not the fastest loop.
 */
export class WorkFetcher {
  readonly #params: WorkFetcherParams;
  readonly #stopping = new AbortController();
  /** Work that has a loop of its own. */
  readonly #sources: readonly WorkSource[];
  readonly #wakers = new Set<() => void>();
  /** Aborts the fetches that wait for work. */
  readonly #polls = new Set<() => void>();
  readonly #pollsOfSources = new Map<WorkSource, () => void>();
  /** Number of `onFail` items queued by failures of this worker, by task. */
  readonly #queuedOnFails = new Map<string, number>();
  #isSaturated = false;
  /** Monotonic time of the last claim that limits counted. */
  #limitedAt = Number.NEGATIVE_INFINITY;
  #loops: readonly Promise<void>[] = [];

  constructor(params: WorkFetcherParams) {
    this.#params = params;
    this.#sources = [...params.handlers.limiters(), ...params.batches];
    params.slots.onFree(() => this.#wake());
    params.ahead.onRoom(() => this.#wake());
    for (const source of params.batches) {
      source.observe?.({
        opened: () => this.#wake(),
        closed: () => this.#pollsOfSources.get(source)?.(),
      });
    }
  }

  /** A run that is claimed ahead would hold a place of its limit or batch without running. */
  get #mayClaimAhead(): boolean {
    const { clock, handlers } = this.#params;
    if (this.#sources.length > 0 || handlers.hasSharedLimits) return false;
    return clock.monotonic() - this.#limitedAt >= limitedPauseMs;
  }

  get isStopping(): boolean {
    return this.#stopping.signal.aborted;
  }

  /** Starts fetching. Also without registered work: any worker may ack an item that was canceled. */
  start(): void {
    const { handlers } = this.#params;
    const unbounded = { names: handlers.activityNames(), tasks: handlers.unboundedTasks() };
    this.#loops = [
      this.#repeat(() => this.#fetchUnbounded(unbounded)),
      ...this.#sources.map((source) => this.#repeat(() => this.#fetchSource(source))),
    ];
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#wake();
    this.#endPolls();
    this.#endSourcePolls();
    await Promise.all(this.#loops);
  }

  /** Announces a queued `onFail` item. It is fetched even while its task has no capacity. */
  expectOnFail(task: string): void {
    if (!this.#sources.some((source) => source.task === task)) return;
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
    const { clock, slots, ahead } = this.#params;
    if (slots.free === 0 && ahead.isFast && this.#mayClaimAhead) {
      if (ahead.room === 0) await this.#untilWoken(clock.monotonic() + aheadPauseMs);
      if (this.isStopping) return;
      if (slots.free === 0 && ahead.room > 0) {
        await this.#fetchUntilFree({ max: ahead.room, ...unbounded });
        return;
      }
    }
    // Handlers that end in the same event loop iteration free slots for one fetch, which shares a transaction with
    // their acks.
    if (slots.free === 0) await nextIteration();
    // `stop()` ends only fetches that have started. A later one would wait for the whole poll interval.
    if (this.isStopping) return;
    if (slots.free === 0) await this.#fetchFlagged();
    else if (this.#isSaturated) await this.#fetchByPriority(unbounded);
    else await this.#poll({ max: slots.free, ...unbounded });
  }

  async #fetchSource(source: WorkSource): Promise<void> {
    const { clock, slots } = this.#params;
    const { names, tasks, task = '' } = source;
    const max = source.claimable(clock.monotonic(), slots.free);
    const isFull = this.#isSaturated || slots.free === 0;
    if (isFull && !source.isGathering) await this.#untilWoken(undefined);
    else if (this.#queuedOnFails.has(task) && slots.free > 0 && (max < 1 || source.isBatch)) {
      // `onFail` items have the highest priority. If a run is claimed instead, it is released, or joins a batch.
      const failures = Math.min(this.#queuedOnFails.get(task) ?? 0, slots.free);
      this.#queuedOnFails.delete(task);
      const { signal } = this.#stopping;
      await this.#fetch({ max: failures, names: [], tasks, signal, waitMs: 0 });
    } else if (max > 0) await this.#poll({ max, names, tasks }, source);
    else await this.#untilWoken(source.availableAt);
  }

  /** Fetches by priority. No limited task gets more than its capacity; the other work fills the remaining slots. */
  async #fetchByPriority({ names, tasks }: Names): Promise<void> {
    const { clock, slots } = this.#params;
    const { signal } = this.#stopping;
    const nowMs = clock.monotonic();
    const open = this.#sources.filter((source) => source.claimable(nowMs, slots.free) >= 1);
    const max = Math.min(slots.free, ...open.map((source) => source.claimable(nowMs, slots.free)));
    const all = {
      names: [...names, ...open.flatMap((source) => source.names)],
      tasks: [...tasks, ...open.flatMap((source) => source.tasks)],
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
  async #poll(params: Names & { readonly max: number }, source?: WorkSource): Promise<void> {
    const { signal } = this.#stopping;
    if (this.#sources.length === 0) await this.#fetch({ ...params, signal });
    else {
      const saturated = new AbortController();
      const end = (): void => saturated.abort(noSlotLeft);
      // A batch that gathers has its slot, so it claims on while the worker is saturated.
      if (source?.isGathering !== true) this.#polls.add(end);
      if (source !== undefined) this.#pollsOfSources.set(source, end);
      try {
        await this.#fetch({ ...params, signal: saturated.signal });
      } finally {
        this.#polls.delete(end);
        if (source !== undefined) this.#pollsOfSources.delete(source);
      }
    }
  }

  /** Without a free slot, fetches only canceled items of dead workers. Acking them needs no slot. */
  async #fetchFlagged(): Promise<void> {
    await this.#fetchUntilFree({ max: flaggedBatch, names: [], tasks: [] });
    await nextIteration();
  }

  /** Fetches without a free slot. Does not wait for work after one is free. */
  async #fetchUntilFree(params: Names & { readonly max: number }): Promise<void> {
    const freed = new AbortController();
    const wake = (): void => freed.abort(slotFreed);
    this.#wakers.add(wake);
    try {
      await this.#fetch({ ...params, signal: freed.signal });
    } finally {
      this.#wakers.delete(wake);
    }
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
    for (const item of items) {
      if (item.limited === true) this.#limitedAt = askedAt;
      take(item, claimedSince(clock, item.nowMs, askedAt));
    }
    if (slots.free === 0 && this.#sources.length > 0) {
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

  #endSourcePolls(): void {
    for (const end of this.#pollsOfSources.values()) end();
  }
}
