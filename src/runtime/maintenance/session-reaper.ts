import type { Clock } from '../../model/clock.ts';
import type { Logger } from '../../model/logger.ts';
import { Rounds } from '../../model/periodic-loop.ts';
import type { SessionStore } from '../../providers/contract/sessions.ts';
import type { LateResults } from '../activities/late-results.ts';

export interface SessionReaperParams {
  readonly store: SessionStore;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly lateResults: LateResults;
  /** How often it looks while it knows of nothing that will be due. */
  readonly idleMs: number;
}

const maxDue = 100;
/** How many jobs are stopped in one transaction. */
const maxJobs = 500;

/**
 * Ends sessions whose leases ran out or that were told to end, and jobs that nobody wants any more. Every worker has
 * one; the store hands each session to one of them at a time. It sleeps until the next lease runs out.
 */
export class SessionReaper {
  readonly #params: SessionReaperParams;
  readonly #loop: Rounds;

  constructor(params: SessionReaperParams) {
    this.#params = params;
    const { clock, logger } = params;
    this.#loop = new Rounds({
      clock,
      round: () => this.#reapDue(),
      onError: (error) => logger.warn({ error }, 'looking after sessions failed; trying again'),
    });
  }

  start(): void {
    this.#loop.start();
  }

  /** A session of this process was opened or changed: see when it is due. */
  changed(): void {
    this.#loop.wakeIn(0);
  }

  async stop(): Promise<void> {
    await this.#loop.stop();
    await this.#params.lateResults.idle();
  }

  /** Does what is due; answers how long to sleep. */
  async #reapDue(): Promise<number> {
    const { store, clock, lateResults, idleMs } = this.#params;
    const { sessionIds, hasAbandoned, nextAt } = await store.dueSessions(maxDue);
    for (const sessionId of sessionIds) await this.#settle(sessionId);
    const isBusy = hasAbandoned && (await lateResults.disposeDue());
    if (sessionIds.length > 0 || isBusy) return 0;
    const inMs = nextAt === null ? Infinity : nextAt - clock.now();
    // What is due and was not handed to this worker, another one is at, or knows how to dispose of.
    return inMs > 0 ? Math.min(inMs, idleMs) : idleMs;
  }

  async #settle(sessionId: string): Promise<void> {
    const { store, logger } = this.#params;
    try {
      await store.settleSession(sessionId, maxJobs);
    } catch (error) {
      logger.warn({ error, sessionId }, 'ending a session failed; trying again soon');
    }
  }
}
