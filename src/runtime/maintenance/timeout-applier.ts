import type { Clock } from '../../model/clock.ts';
import type { Logger } from '../../model/logger.ts';
import { PeriodicLoop } from '../../model/periodic-loop.ts';
import type { CancellationStore } from '../../providers/contract/cancellation.ts';

export interface TimeoutApplierParams {
  readonly store: Pick<CancellationStore, 'applyTimeouts'>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** How long a canceled orchestration may clean up, in milliseconds. */
  readonly cleanupMs: number;
  /** Query interval while no timeout passes, in milliseconds. */
  readonly idleMs: number;
}

const maxAtOnce = 500;
// How late a timeout can be that is shorter than this.
const maxLateMs = 1_000;

/**
 * Cancels instances whose timeouts have passed. Every worker has one, with or without their code; the store applies each
 * timeout once. Sleeps until the next timeout passes.
 */
export class TimeoutApplier {
  readonly #params: TimeoutApplierParams;
  readonly #loop: PeriodicLoop;
  #lastRoundAt = -Infinity;
  /** Whether a commit since the last round began has set the alarm. */
  #isWoken = false;

  constructor(params: TimeoutApplierParams) {
    this.#params = params;
    const { clock, logger } = params;
    this.#loop = new PeriodicLoop({
      clock,
      round: () => this.#apply(),
      onError: (error) => logger.warn({ error }, 'applying timeouts failed, will retry'),
    });
  }

  start(): void {
    this.#loop.start();
  }

  stop(): Promise<void> {
    return this.#loop.stop();
  }

  /** Call after a commit: it may have started an instance with a timeout. Throttled, because few do. */
  committed(): void {
    if (this.#isWoken) return;
    this.#isWoken = true;
    const { clock, idleMs } = this.#params;
    const passedMs = clock.monotonic() - this.#lastRoundAt;
    this.#loop.wakeIn(Math.max(0, Math.min(idleMs / 5, maxLateMs) - passedMs));
  }

  /** Applies the passed timeouts. Returns how long to sleep, in milliseconds. */
  async #apply(): Promise<number> {
    const { store, clock, cleanupMs, idleMs } = this.#params;
    this.#lastRoundAt = clock.monotonic();
    this.#isWoken = false;
    const { canceled, nextAt, nowMs } = await store.applyTimeouts({ limit: maxAtOnce, cleanupMs });
    if (canceled > 0) return 0;
    return nextAt === null ? idleMs : Math.min(Math.max(0, nextAt - nowMs), idleMs);
  }
}
