import type { AttemptContext } from '../../../src/index.ts';
import type { SeedClock } from './seed-clock.ts';

/** Controls the handlers of the seed: how long they take by the seed's clock, and which of them stay in progress. */
export class Stage {
  readonly #clock: SeedClock;
  readonly #held = new Set<string>();
  #takesTime = true;
  readonly #released = Promise.withResolvers<void>();

  constructor(clock: SeedClock) {
    this.#clock = clock;
  }

  /** Keeps the handler with this key in progress until it is canceled or the seed is closed. */
  hold(...keys: readonly string[]): void {
    for (const key of keys) this.#held.add(key);
  }

  /** From now on, handlers take real time only. */
  runInRealTime(): void {
    this.#takesTime = false;
  }

  /** Lets all handlers end, including those that ignore their signal. */
  release(): void {
    this.#held.clear();
    this.#released.resolve();
  }

  /** The work of a handler: takes `ms` of the seed's clock, or stays in progress if its key is held. */
  async work(ctx: AttemptContext, key: string, ms: number): Promise<void> {
    if (this.#takesTime) this.#clock.advance(ms);
    if (!this.#held.has(key)) return;
    ctx.heartbeat({ at: key });
    await Promise.race([ctx.canceled(), this.#released.promise]);
    ctx.throwIfCanceled();
  }

  /** Ignores the signal: a worker reports the handler as leaked after its grace. */
  async ignoreSignal(key: string): Promise<void> {
    if (this.#held.has(key)) await this.#released.promise;
  }
}
