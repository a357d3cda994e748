import { setImmediate } from 'node:timers';
import type { Clock } from '../model/clock.ts';
import type { Provider } from '../providers/provider.ts';
import type { WorkItem } from '../providers/work-queue.ts';
import type { ResolvedOptions } from './options.ts';
import { pause } from './provider-retry.ts';
import type { Slots } from './slots.ts';
import type { TaskGate } from './task-gate.ts';
import type { WorkHandlers } from './work-handlers.ts';

export interface WorkFetcherParams {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly options: ResolvedOptions;
  readonly slots: Slots;
  readonly handlers: WorkHandlers;
  readonly take: (item: WorkItem, claimedAt: number) => void;
}

const errorPauseMs = 200;
const flaggedBatch = 100;
// Given, so that no error with a stack is made each time.
const slotFreed = Symbol('a slot is free');

/**
 * Fetches as much work as there are free slots. A task with bounds of its own has a loop of its own, so that no more
 * is claimed than may start, and others do not wait for it.
 */
export class WorkFetcher {
  readonly #params: WorkFetcherParams;
  readonly #stopping = new AbortController();
  readonly #waiting = new Set<() => void>();
  #loops: readonly Promise<void>[] = [];

  constructor(params: WorkFetcherParams) {
    this.#params = params;
    params.slots.onFree(() => this.#wake());
  }

  get isStopping(): boolean {
    return this.#stopping.signal.aborted;
  }

  /** Begins to fetch; also with nothing registered, because anyone may end an item that was asked to stop. */
  start(): void {
    const { handlers } = this.#params;
    const [names, tasks] = [handlers.activityNames(), handlers.unboundedTasks()];
    this.#loops = [
      this.#repeat(() => this.#fetchUnbounded(names, tasks)),
      ...handlers.gates().map((gate) => this.#repeat(() => this.#fetchThrough(gate))),
    ];
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#wake();
    await Promise.all(this.#loops);
  }

  async #repeat(look: () => Promise<void>): Promise<void> {
    const { clock, options } = this.#params;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        await look();
      } catch (error) {
        if (signal.aborted) return;
        options.logger.warn({ error }, 'fetching work failed; trying again');
        await pause(clock, errorPauseMs, signal);
      }
    }
  }

  async #fetchUnbounded(names: readonly string[], tasks: readonly string[]): Promise<void> {
    const { slots } = this.#params;
    const { signal } = this.#stopping;
    // Handlers that end in the same turn of the event loop make room for one fetch, which then shares its transaction
    // with their acks.
    if (slots.free === 0) await nextTurn();
    if (slots.free > 0) await this.#fetch({ max: slots.free, names, tasks, signal });
    else await this.#fetchFlagged();
  }

  async #fetchThrough(gate: TaskGate): Promise<void> {
    const { clock, slots } = this.#params;
    const max = Math.min(gate.room(clock.now()), slots.free);
    const { signal } = this.#stopping;
    if (max > 0) await this.#fetch({ max, names: [], tasks: [gate.task], signal });
    else await this.#untilWoken(slots.free > 0 ? gate.opensAt : undefined);
  }

  /** With no slot free there is still work that needs none: items of dead workers that were asked to stop. */
  async #fetchFlagged(): Promise<void> {
    const freed = new AbortController();
    const wake = (): void => freed.abort(slotFreed);
    this.#waiting.add(wake);
    try {
      await this.#fetch({ max: flaggedBatch, names: [], tasks: [], signal: freed.signal });
    } finally {
      this.#waiting.delete(wake);
    }
    await nextTurn();
  }

  async #fetch(params: {
    readonly max: number;
    readonly names: readonly string[];
    readonly tasks: readonly string[];
    readonly signal: AbortSignal;
  }): Promise<void> {
    const { provider, clock, options, take } = this.#params;
    const items = await provider.fetchWorkItems({
      ...params,
      lockMs: options.activityLeaseMs,
      waitMs: options.pollIntervalMs,
    });
    // The claim may be much later than the call; by the store's clock it was at `nowMs`, and ours has gone on since.
    const claimedAt = clock.now();
    for (const item of items) take(item, Math.min(claimedAt, item.nowMs));
  }

  /** Resolves when a slot is free, or at a time. */
  #untilWoken(atMs: number | undefined): Promise<void> {
    return new Promise((resolve) => {
      let cancelAlarm: (() => void) | undefined;
      const wake = (): void => {
        this.#waiting.delete(wake);
        cancelAlarm?.();
        resolve();
      };
      this.#waiting.add(wake);
      if (atMs !== undefined) cancelAlarm = this.#params.clock.setAlarm(atMs, wake);
    });
  }

  #wake(): void {
    for (const wake of this.#waiting) wake();
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
