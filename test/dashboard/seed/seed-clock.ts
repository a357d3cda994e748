import { systemClock, type Clock } from '../../../src/model/clock.ts';

/**
 * A clock that runs at the speed of the system clock and can be moved forward, so that a store gets hours of past in
 * seconds. Timers keep their real delay: stop the workers before you move it by more than a lease.
 */
export class SeedClock implements Clock {
  #aheadMs: number;
  #movedMs = 0;
  #stopped: { readonly now: number; readonly monotonic: number } | undefined;

  constructor(startAt: number) {
    this.#aheadMs = startAt - systemClock.now();
  }

  now(): number {
    return this.#stopped?.now ?? systemClock.now() + this.#aheadMs;
  }

  monotonic(): number {
    return this.#stopped?.monotonic ?? systemClock.monotonic() + this.#movedMs;
  }

  setTimer(delayMs: number, callback: () => void): () => void {
    return systemClock.setTimer(delayMs, callback);
  }

  /** Stops the clock: no lease expires, and every page shows the same times. */
  stop(): void {
    this.#stopped = { now: this.now(), monotonic: this.monotonic() };
  }

  /** Moves the clock forward. */
  advance(ms: number): void {
    this.#aheadMs += ms;
    this.#movedMs += ms;
  }

  /** Moves the clock forward to a time. Does nothing if that has passed. */
  moveTo(atMs: number): void {
    this.advance(Math.max(0, atMs - this.now()));
  }
}
