const firstMs = 4;
const maxMs = 32;

/**
 * How long the fetches of a process leave work to other workers.
 *
 * Every process notices new work, but one worker is enough for it. A worker that comes too late claims only work that has been
 * due for some time, twice as long each time up to 32 ms. The worker that finds work claims immediately. If it is busy or has
 * died, the work becomes old enough for the others.
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
