import { Pacer } from '../../management/pacer.ts';
import { reclaim } from '../../management/reclaim.ts';
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
 * Takes away what deletions have only hidden. Whoever deletes does that, too; this is for the rows of a process that
 * died in the middle of it. It needs no alarm: it looks when the worker does, at its start and then once in an hour.
 */
export class Reclaimer {
  readonly #params: ReclaimerParams;
  readonly #stopping = new AbortController();
  #nextAt = -Infinity;
  #underWay: Promise<void> | undefined;

  constructor(params: ReclaimerParams) {
    this.#params = params;
  }

  runIfDue(): void {
    const { clock } = this.#params;
    const isDue = clock.monotonic() >= this.#nextAt && this.#underWay === undefined;
    if (!isDue || this.#stopping.signal.aborted) return;
    this.#nextAt = clock.monotonic() + everyMs;
    this.#underWay = this.#reclaim().finally(() => (this.#underWay = undefined));
  }

  /** Ends after the transaction that is under way. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#underWay;
  }

  async #reclaim(): Promise<void> {
    const { provider, logger } = this.#params;
    const { signal } = this.#stopping;
    try {
      await reclaim(provider, new Pacer(signal));
    } catch (error) {
      if (signal.aborted) return;
      logger.warn({ error }, 'taking away deleted rows failed; trying again in an hour');
    }
  }
}
