import { setTimeout as sleep } from 'node:timers/promises';
import { PerdureError } from '../model/failures/errors.ts';
import type { ManagementStore } from '../providers/contract/management.ts';

// Instances, executions, events and messages that one transaction may take away: about 3 ms on SQLite.
const rowsPerStep = 250;
const firstSize = 16;
const maxSize = 256;
const maxRestMs = 250;

/**
 * Keeps long work from starving what runs beside it: short steps, and after each a rest about as long as it took.
 * By the machine's time, because it is the machine that others wait for.
 */
export class Pacer {
  readonly #signal: AbortSignal | undefined;
  readonly #assertGoingOn: (() => Promise<void>) | undefined;
  #size = firstSize;

  /** A step begins if the signal is not aborted and `assertGoingOn` does not throw. */
  constructor(signal?: AbortSignal, assertGoingOn?: () => Promise<void>) {
    this.#signal = signal;
    this.#assertGoingOn = assertGoingOn;
  }

  /** How many things to take up in the next step. */
  get size(): number {
    return this.#size;
  }

  /** Does one step, then rests; throws the reason of the signal if that was aborted. */
  async step<T>(work: () => Promise<T>): Promise<T> {
    this.#signal?.throwIfAborted();
    await this.#assertGoingOn?.();
    const begunAt = performance.now();
    const result = await work();
    await this.#rest(Math.min(performance.now() - begunAt, maxRestMs));
    return result;
  }

  /** Sizes the next step by what the things of this one weighed. */
  weigh(things: number, rows: number): void {
    if (things === 0) return;
    const fitting = Math.floor(rowsPerStep / Math.max(rows / things, 1));
    this.#size = Math.min(Math.max(fitting, 1), Math.min(this.#size * 2, maxSize));
  }

  // The result of a step that was done must not be lost to an abort during the rest: the next step throws it.
  async #rest(ms: number): Promise<void> {
    try {
      await sleep(ms, undefined, this.#signal && { signal: this.#signal });
    } catch (error) {
      if (this.#signal?.aborted !== true) throw error;
    }
  }
}

const rowsAtOnce = 500;

/**
 * Takes away what deletions have only hidden, in short steps, until nothing is left. Few events are never hidden, so
 * who deleted no more does one step, and does not wait until what others have hidden is gone.
 *
 * A store in trouble is no reason to report a deletion that was committed as failed: workers reclaim what is left.
 */
export async function reclaim(
  store: Pick<ManagementStore, 'reclaimDeleted'>,
  pacer: Pacer,
  eventsDeleted = Infinity,
): Promise<void> {
  try {
    for (let left = true; left;) {
      ({ left } = await pacer.step(() => store.reclaimDeleted(rowsAtOnce)));
      if (eventsDeleted <= rowsAtOnce) return;
    }
  } catch (error) {
    if (!PerdureError.is(error)) throw error;
  }
}
