import type { Clock } from '../../../model/clock.ts';

/** What was known when a look began. */
export interface DueMark {
  readonly changes: number;
  /** By the monotonic clock. */
  readonly begunAt: number;
}

/**
 * When the next schedule or session is due, as the last look has told: so that asking which are due takes no statement
 * while none is, and somebody looks all the time anyway. What this process changes counts at once, what others change from the
 * next look on.
 */
export class NextDue {
  readonly #clock: Clock;
  readonly #maxAgeMs: number;
  #changes = 0;
  #told: { readonly nextAt: number; readonly nowMs: number; readonly begunAt: number } | undefined;

  constructor({ clock, maxAgeMs }: { readonly clock: Clock; readonly maxAgeMs: number }) {
    this.#clock = clock;
    this.#maxAgeMs = maxAgeMs;
  }

  /** Taken before a look, whose answer is worth nothing when one of them changes meanwhile. */
  mark(): DueMark {
    return { changes: this.#changes, begunAt: this.#clock.monotonic() };
  }

  /** A look has found when the next one is due, and read the store's clock. */
  saw({ changes, begunAt }: DueMark, nextAt: number, nowMs: number): void {
    if (changes === this.#changes) this.#told = { nextAt, nowMs, begunAt };
  }

  /** This process may have changed one of them. */
  changed(): void {
    this.#changes += 1;
    this.#told = undefined;
  }

  /** When the next one is due, if that was told lately and lies ahead. */
  get(): { readonly nowMs: number; readonly nextAt: number } | undefined {
    const told = this.#told;
    if (told === undefined) return undefined;
    const passedMs = this.#clock.monotonic() - told.begunAt;
    const nowMs = Math.floor(told.nowMs + passedMs);
    const holds = passedMs < this.#maxAgeMs && told.nextAt > nowMs;
    return holds ? { nowMs, nextAt: told.nextAt } : undefined;
  }
}
