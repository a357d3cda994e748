import type { Clock } from '../model/clock.ts';
import type { Logger } from '../model/logger.ts';
import type { Provider } from '../providers/provider.ts';

export interface ReclaimerParams {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly logger: Logger;
}

const everyMs = 3_600_000;
const rowsAtOnce = 1_000;

/**
 * Takes away what deletions have only hidden. Whoever deletes does that, too; this is for the rows of a process that
 * died in the middle of it. It needs no alarm: it looks when the worker does, at its start and then once in an hour.
 */
export class Reclaimer {
  readonly #params: ReclaimerParams;
  #nextAt = -Infinity;
  #underWay: Promise<void> | undefined;
  #stopped = false;

  constructor(params: ReclaimerParams) {
    this.#params = params;
  }

  lookIfDue(): void {
    const { clock } = this.#params;
    if (this.#stopped || this.#underWay !== undefined || clock.now() < this.#nextAt) return;
    this.#nextAt = clock.now() + everyMs;
    this.#underWay = this.#reclaim().finally(() => (this.#underWay = undefined));
  }

  /** Ends after the batch that is under way. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#underWay;
  }

  async #reclaim(): Promise<void> {
    const { provider, logger } = this.#params;
    try {
      for (let left = true; left && !this.#stopped;) {
        ({ left } = await provider.reclaimDeleted(rowsAtOnce));
      }
    } catch (error) {
      logger.warn({ error }, 'taking away deleted rows failed; trying again in an hour');
    }
  }
}
