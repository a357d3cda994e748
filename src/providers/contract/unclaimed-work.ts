import type { Runnable } from './orchestration-queue.ts';

/** The definitions that a worker can run, and the minimum wait of other work to list. */
export interface FindUnclaimedWorkParams {
  /** Orchestrations that the worker can run. */
  readonly runnable: readonly Runnable[];
  /** Activities that the worker can run. */
  readonly activities: readonly string[];
  /** Tasks that the worker can run. */
  readonly tasks: readonly string[];
  /** Only work that has been due for at least this long. */
  readonly minWaitMs: number;
  /** Maximum entries to return. */
  readonly limit: number;
}

/** A definition with due work that no worker claims. */
export interface UnclaimedWork {
  readonly kind: 'orchestration' | 'activity' | 'task';
  readonly name: string;
  /** The version of an orchestration, once chosen. */
  readonly version: string | null;
  /** How long its oldest entry has been due. */
  readonly dueForMs: number;
}

/** Finds work for which no live worker has the code. */
export interface UnclaimedWorkStore {
  /**
   * Lists definitions that this worker cannot run and whose work has been due for some time.
   *
   * A provider must:
   * - list names and versions outside the given ones with an entry that has been due for `minWaitMs`, with the wait
   *   of the oldest (unclaimed/lists-what-the-worker-cannot-run, unclaimed/work-must-have-waited)
   * - ignore entries that are delayed, asked to stop, expired or held (unclaimed/only-what-may-be-claimed-counts)
   * - omit a definition if a worker holds one of the first 100 entries of a priority: that worker has the code
   *   (unclaimed/a-live-claim-shows-that-a-worker-has-the-code)
   * - list an entry with an expired claim, due from the end of its lease
   *   (unclaimed/a-lapsed-claim-counts-from-its-end)
   * - list the longest waiting first, at most `limit` (unclaimed/the-longest-waiting-is-first)
   */
  findUnclaimedWork(params: FindUnclaimedWorkParams): Promise<readonly UnclaimedWork[]>;
}
