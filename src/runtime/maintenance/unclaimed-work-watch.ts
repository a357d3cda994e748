import type { Clock } from '../../model/clock.ts';
import type { Logger } from '../../model/logger.ts';
import type { UnclaimedWork, UnclaimedWorkStore } from '../../providers/contract/unclaimed-work.ts';
import type { WorkerDefinitions, WorkerStore } from '../../providers/contract/workers.ts';
import {
  definitionsOf,
  liveWorkers,
  minUnclaimedMs,
  missingDefinitions,
} from '../../providers/rules/workers.ts';
import { reportSafely } from './reports.ts';

export interface UnclaimedWorkWatchParams {
  readonly store: UnclaimedWorkStore & Pick<WorkerStore, 'listWorkers'>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The definitions that this worker can run. */
  readonly own: WorkerDefinitions;
}

const firstQueryMs = 15_000;
const queryEveryMs = 30_000;
const warnEveryMs = 60_000;
const maxEntries = 100;

/**
 * Warns of due work whose code no live worker has. Typical causes: a misspelled name, a removed version, a definition
 * that was never registered. Queries every 30 s, at a poll of the worker; warns once per name and minute.
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
    const { logger } = this.#params;
    try {
      const { work, live } = await this.#find();
      for (const [key, warnedAt] of this.#warnedAt) {
        if (nowMs - warnedAt >= warnEveryMs) this.#warnedAt.delete(key);
      }
      for (const one of work) this.#warn(one, live, nowMs);
    } catch (error) {
      // Logged at debug level: the next query comes soon, and other calls report a failing store.
      reportSafely(logger, () => logger.debug({ error }, 'querying unclaimed work failed'));
    }
  }

  /** Reads the registry only if work waits that this worker cannot run. */
  async #find(): Promise<{
    readonly work: readonly UnclaimedWork[];
    readonly live: readonly WorkerDefinitions[];
  }> {
    const { store, own } = this.#params;
    const query = { minWaitMs: minUnclaimedMs, limit: maxEntries };
    const foreign = await store.findUnclaimedWork({ ...definitionsOf([own]), ...query, limit: 1 });
    if (foreign.length === 0) return { work: [], live: [] };
    // This worker runs, whatever its last heartbeat says.
    const live = [own, ...liveWorkers(await store.listWorkers())];
    const work = await store.findUnclaimedWork({ ...definitionsOf(live), ...query });
    return { work: missingDefinitions(work), live };
  }

  #warn(
    { kind, name, version, dueForMs }: UnclaimedWork,
    live: readonly WorkerDefinitions[],
    nowMs: number,
  ): void {
    const key = JSON.stringify([kind, name, version]);
    if (this.#warnedAt.has(key)) return;
    this.#warnedAt.set(key, nowMs);
    const { logger } = this.#params;
    const versions = definitionsOf(live).runnable.flatMap((one) =>
      one.name === name && one.version !== null ? one.version : [],
    );
    const registered = kind === 'orchestration' && versions.length > 0 ? { versions } : undefined;
    const fields = { [kind]: name, ...(version !== null && { version }), dueForMs, ...registered };
    reportSafely(logger, () =>
      logger.warn(
        fields,
        registered === undefined
          ? `no live worker has this ${kind} registered`
          : 'no live worker has this version of an orchestration registered',
      ),
    );
  }
}
