import { Pacer, reclaim } from '../../management/pacer.ts';
import type { Clock } from '../../model/clock.ts';
import type { Logger } from '../../model/logger.ts';
import type { Provider } from '../../providers/contract/provider.ts';

export interface ReclaimerParams {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly logger: Logger;
}

const everyMs = 3_600_000;

/**
 * Deletes rows that deletions have hidden but not removed, because their process crashed.
 * Runs when the worker starts and then once per hour, at a poll of the worker.
 */
export class Reclaimer {
  readonly #params: ReclaimerParams;
  readonly #stopping = new AbortController();
  #nextAt = -Infinity;
  #running: Promise<void> | undefined;

  constructor(params: ReclaimerParams) {
    this.#params = params;
  }

  runIfDue(): void {
    const { clock } = this.#params;
    const isDue = clock.monotonic() >= this.#nextAt && this.#running === undefined;
    if (!isDue || this.#stopping.signal.aborted) return;
    this.#nextAt = clock.monotonic() + everyMs;
    this.#running = this.#reclaim().finally(() => (this.#running = undefined));
  }

  /** Stops after the current transaction. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #reclaim(): Promise<void> {
    const { provider, logger } = this.#params;
    const { signal } = this.#stopping;
    try {
      await reclaim(provider, new Pacer(signal));
    } catch (error) {
      if (signal.aborted) return;
      logger.warn({ error }, 'removing deleted rows failed, will retry in an hour');
    }
  }
}
