const firstMs = 4;
const maxMs = 32;

/**
 * Delays the claims of processes that were too slow for new work, so that one worker claims each piece of work.
 *
 * Hints about new work reach every process. A fetch that finds nothing claims only work that has been due for 4 ms, and after
 * each further miss twice as long, up to 32 ms. A fetch that finds work claims immediately from then on. If that worker is busy
 * or has died, the others claim the work after their delay.
 */
export class HintDelays {
  readonly #delays = new Map<string, number>();
  readonly #isEnabled: boolean;

  /** Disabled: all fetches claim immediately. For clocks that do not run by themselves. */
  constructor({ isEnabled }: { readonly isEnabled: boolean }) {
    this.#isEnabled = isEnabled;
  }

  /** How long work must have been due for fetches with this key, in milliseconds. */
  get(key: string): number {
    return this.#delays.get(key) ?? 0;
  }

  /** A fetch found work. */
  found(key: string): void {
    this.#delays.delete(key);
  }

  /** A fetch found nothing after a change by another process. */
  missed(key: string): void {
    if (!this.#isEnabled) return;
    const delayMs = this.#delays.get(key);
    this.#delays.set(key, delayMs === undefined ? firstMs : Math.min(delayMs * 2, maxMs));
  }
}

/** Since when work has been due. Some work is always due `now`: it counts from the first query that returned it. */
export function sinceWhen({
  nextAt,
  now,
  before,
}: {
  readonly nextAt: number;
  readonly now: number;
  /** The result of the query before. */
  readonly before: number;
}): number {
  if (nextAt > now) return Infinity;
  return nextAt < now ? nextAt : Math.min(before, now);
}
