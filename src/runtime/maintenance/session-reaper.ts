import type { Clock } from '../../model/clock.ts';
import type { Logger } from '../../model/logger.ts';
import { PeriodicLoop } from '../../model/periodic-loop.ts';
import type { SessionStore } from '../../providers/contract/sessions.ts';
import type { LateResults } from '../activities/late-results.ts';

export interface SessionReaperParams {
  readonly store: SessionStore;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly lateResults: LateResults;
  /** Query interval while no session is due, in milliseconds. */
  readonly idleMs: number;
}

const maxDue = 100;
/** Maximum jobs canceled in one transaction. */
const maxJobs = 500;
/** Minimum time between two queries that commits cause, in milliseconds. */
const minCommitQueryMs = 2_000;

/**
 * Ends expired and shut-down sessions, and cancels their jobs. Every worker has one; the store gives each session to
 * one of them at a time. Sleeps until the next lease expires. Commits wake it, because a session of another process may have
 * changed or its last job may have ended.
 */
export class SessionReaper {
  readonly #params: SessionReaperParams;
  readonly #loop: PeriodicLoop;
  #lastRoundAt = -Infinity;
  /** Whether a commit since the last round began has set the alarm. */
  #isWoken = false;

  constructor(params: SessionReaperParams) {
    this.#params = params;
    const { clock, logger } = params;
    this.#loop = new PeriodicLoop({
      clock,
      round: () => this.#reapDue(),
      onError: (error) => logger.warn({ error }, 'ending sessions failed, will retry'),
    });
  }

  start(): void {
    this.#loop.start();
  }

  /** Call after this process opened or changed a session. Wakes the reaper. */
  changed(): void {
    this.#loop.wakeIn(0);
  }

  /** Call after a commit of any process. Wakes the reaper, at most every 2 s, because few commits concern sessions. */
  committed(): void {
    if (this.#isWoken) return;
    this.#isWoken = true;
    const passedMs = this.#params.clock.monotonic() - this.#lastRoundAt;
    this.#loop.wakeIn(Math.max(0, minCommitQueryMs - passedMs));
  }

  async stop(): Promise<void> {
    await this.#loop.stop();
    await this.#params.lateResults.idle();
  }

  /** Ends the due sessions. Returns how long to sleep, in milliseconds. */
  async #reapDue(): Promise<number> {
    const { store, clock, lateResults, idleMs } = this.#params;
    this.#lastRoundAt = clock.monotonic();
    this.#isWoken = false;
    const { sessionIds, hasAbandoned, nextAt } = await store.dueSessions(maxDue);
    for (const sessionId of sessionIds) await this.#settle(sessionId);
    const isBusy = hasAbandoned && (await lateResults.disposeDue());
    if (sessionIds.length > 0 || isBusy) return 0;
    const inMs = nextAt === null ? Infinity : nextAt - clock.now();
    // Work that is due but was not returned belongs to another worker.
    return inMs > 0 ? Math.min(inMs, idleMs) : idleMs;
  }

  async #settle(sessionId: string): Promise<void> {
    const { store, logger } = this.#params;
    try {
      await store.settleSession(sessionId, maxJobs);
    } catch (error) {
      logger.warn({ error, sessionId }, 'ending a session failed, will retry');
    }
  }
}
