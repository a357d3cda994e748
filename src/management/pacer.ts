import { PerdureError } from '../model/failures/errors.ts';
import type { ManagementStore } from '../providers/contract/management.ts';
import { delay, platform } from '../model/platform.ts';

// Target number of deleted rows per transaction: about 3 ms on SQLite.
const rowsPerStep = 250;
const initialSize = 16;
const maxSize = 256;
const maxPauseMs = 250;

/**
 * Throttles bulk work, so that it does not starve other work: short steps, each followed by a pause of about the same
 * length. It measures real time, also under a fake clock.
 */
export class Pacer {
  readonly #signal: AbortSignal | undefined;
  readonly #beforeStep: (() => Promise<void>) | undefined;
  #size = initialSize;

  /** `beforeStep` runs before each step, and ends the work if it throws. */
  constructor(signal?: AbortSignal, beforeStep?: () => Promise<void>) {
    this.#signal = signal;
    this.#beforeStep = beforeStep;
  }

  /** The number of items for the next step. */
  get size(): number {
    return this.#size;
  }

  /** Runs one step, then pauses. Rejects with the signal's reason if it is aborted before the step. */
  async step<T>(work: () => Promise<T>): Promise<T> {
    this.#signal?.throwIfAborted();
    await this.#beforeStep?.();
    const startedAt = platform.monotonic();
    const result = await work();
    await this.#pause(Math.min(platform.monotonic() - startedAt, maxPauseMs));
    return result;
  }

  /** Adjusts the size of the next step to the number of rows per item in this one. */
  adjust(items: number, rows: number): void {
    if (items === 0) return;
    const size = Math.floor(rowsPerStep / Math.max(rows / items, 1));
    this.#size = Math.min(Math.max(size, 1), Math.min(this.#size * 2, maxSize));
  }

  // An abort during the pause must not lose the result of the step. The next step throws the reason.
  async #pause(ms: number): Promise<void> {
    try {
      await delay(ms, this.#signal);
    } catch (error) {
      if (this.#signal?.aborted !== true) throw error;
    }
  }
}

const reclaimedPerStep = 500;

/**
 * Deletes the rows that deletions only hid, in short steps. A deletion of few events hides none, so it runs one step and
 * does not wait for the rows of other deletions.
 *
 * Ignores errors of the store: the deletion is already committed, and workers reclaim the remaining rows.
 */
export async function reclaim(
  store: Pick<ManagementStore, 'reclaimDeleted'>,
  pacer: Pacer,
  eventsDeleted = Infinity,
): Promise<void> {
  try {
    for (let left = true; left;) {
      ({ left } = await pacer.step(() => store.reclaimDeleted(reclaimedPerStep)));
      if (eventsDeleted <= reclaimedPerStep) return;
    }
  } catch (error) {
    if (!PerdureError.is(error)) throw error;
  }
}
