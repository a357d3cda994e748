import { setImmediate } from 'node:timers';

// Long enough that a worker with cheap handlers hardly notices, short against what a person or a hint waits for.
const sliceMs = 2;

/**
 * Spreads the starts of handlers over turns of the event loop, so that a cancel can arrive between two of them. Without
 * it, a batch of 100 handlers that each compute for 5 ms would start as one block of half a second.
 */
export class StartSlices {
  readonly #waiting: (() => void)[] = [];
  /** When the current slice ends; absent before the first start after a turn of the event loop. */
  #endsAt: number | undefined;

  /** Returns `undefined` if a handler may start now, else a promise that resolves when it may. */
  admit(): Promise<void> | undefined {
    if (this.#waiting.length === 0 && this.#hasTime()) return undefined;
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  #hasTime(): boolean {
    const now = performance.now();
    if (this.#endsAt !== undefined) return now < this.#endsAt;
    this.#endsAt = now + sliceMs;
    setImmediate(() => void this.#nextSlice());
    return true;
  }

  async #nextSlice(): Promise<void> {
    this.#endsAt = undefined;
    while (this.#waiting.length > 0 && this.#hasTime()) {
      this.#waiting.shift()?.();
      // The handler runs in the microtask before this one, so the next look at the clock includes its work.
      await Promise.resolve();
    }
  }
}
