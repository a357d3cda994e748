import type { Clock } from '../../model/clock.ts';
import type { Logger } from '../../model/logger.ts';
import type { Runnable } from '../../providers/contract/orchestration-queue.ts';
import type { UnclaimedWork, UnclaimedWorkStore } from '../../providers/contract/unclaimed-work.ts';
import { reportSafely } from './reports.ts';

export interface UnclaimedWorkWatchParams {
  readonly store: UnclaimedWorkStore;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The orchestrations that this worker can run. */
  readonly runnable: readonly Runnable[];
  readonly activities: readonly string[];
  readonly tasks: readonly string[];
}

/** Minimum time that work is due before a warning. A worker with its code claims it sooner. */
const minWaitMs = 10_000;
const firstQueryMs = 15_000;
const queryEveryMs = 30_000;
const warnEveryMs = 60_000;
const maxEntries = 100;

/**
 * Warns of due work that neither this worker nor another one claims. Typical causes: a misspelled name, a removed
 * version,
 * a definition that was never registered. Queries every 30 s, at a poll of the worker; warns once per name and
 * minute.
 */
export class UnclaimedWorkWatch {
  readonly #params: UnclaimedWorkWatchParams;
  readonly #warnedAt = new Map<string, number>();
  #nextAt: number;
  #running: Promise<void> | undefined;
  #isStopped = false;

  constructor(params: UnclaimedWorkWatchParams) {
    this.#params = params;
    this.#nextAt = params.clock.monotonic() + firstQueryMs;
  }

  queryIfDue(): void {
    const nowMs = this.#params.clock.monotonic();
    if (nowMs < this.#nextAt || this.#running !== undefined || this.#isStopped) return;
    this.#nextAt = nowMs + queryEveryMs;
    this.#running = this.#query(nowMs).finally(() => (this.#running = undefined));
  }

  /** Resolves once a running query has ended. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#running;
  }

  async #query(nowMs: number): Promise<void> {
    const { store, logger, runnable, activities, tasks } = this.#params;
    try {
      const filter = { runnable, activities, tasks };
      const work = await store.findUnclaimedWork({ ...filter, minWaitMs, limit: maxEntries });
      for (const [key, warnedAt] of this.#warnedAt) {
        if (nowMs - warnedAt >= warnEveryMs) this.#warnedAt.delete(key);
      }
      for (const one of work) this.#warn(one, nowMs);
    } catch (error) {
      // Logged at debug level: the next query comes soon, and other calls report a failing store.
      reportSafely(logger, () => logger.debug({ error }, 'querying unclaimed work failed'));
    }
  }

  #warn({ kind, name, version, dueForMs }: UnclaimedWork, nowMs: number): void {
    const key = JSON.stringify([kind, name, version]);
    if (this.#warnedAt.has(key)) return;
    this.#warnedAt.set(key, nowMs);
    const { logger, runnable } = this.#params;
    const versions = runnable.flatMap((one) =>
      one.name === name && one.version !== null ? one.version : [],
    );
    const registered = kind === 'orchestration' && versions.length > 0 ? { versions } : undefined;
    const fields = { [kind]: name, ...(version !== null && { version }), dueForMs, ...registered };
    reportSafely(logger, () =>
      logger.warn(
        fields,
        registered === undefined
          ? `no worker claims this ${kind}: none seems to have it registered`
          : 'no worker claims this version of an orchestration: none seems to have it registered',
      ),
    );
  }
}
