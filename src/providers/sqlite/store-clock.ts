import type { Clock } from '../../model/clock.ts';

/** The clock of a store, in whole milliseconds, which notices that it was set back. */
export class StoreClock {
  readonly #clock: Clock;
  #last = Number.NEGATIVE_INFINITY;
  #wasSetBack = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  now(): number {
    const now = Math.floor(this.#clock.now());
    if (now < this.#last) this.#wasSetBack = true;
    this.#last = now;
    return now;
  }

  /** Whether messages may wait that were visible and no longer are. */
  get wasSetBack(): boolean {
    return this.#wasSetBack;
  }

  /** Those messages are visible again. */
  caughtUp(): void {
    this.#wasSetBack = false;
  }
}
