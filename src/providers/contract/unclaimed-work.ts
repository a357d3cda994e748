import type { Runnable } from './orchestration-queue.ts';

/** What a worker can run, and how long other work must have been due to be listed. */
export interface FindUnclaimedWorkParams {
  /** Orchestrations that the worker can run. */
  readonly runnable: readonly Runnable[];
  /** Activities that the worker can run. */
  readonly activities: readonly string[];
  /** Tasks that the worker can run. */
  readonly tasks: readonly string[];
  /** Only work that has been due for at least this long. */
  readonly minWaitMs: number;
  /** At most this many entries. */
  readonly limit: number;
}

/** A definition of which work is due that no worker claims. */
export interface UnclaimedWork {
  readonly kind: 'orchestration' | 'activity' | 'task';
  readonly name: string;
  /** Of an orchestration whose version is picked. */
  readonly version: string | null;
  /** How long the oldest of its entries has been due. */
  readonly dueForMs: number;
}

/** Work that waits for code which no live worker has. */
export interface UnclaimedWorkStore {
  /**
   * Lists definitions that this worker cannot run and of which work has been due for some time.
   *
   * A provider must:
   * - list the names and versions outside the given ones of which an entry has been due for `minWaitMs`, with the wait of
   *   the oldest (unclaimed/lists-what-the-worker-cannot-run, unclaimed/work-must-have-waited)
   * - list none for entries that are delayed, asked to stop, expired or held
   *   (unclaimed/only-what-may-be-claimed-counts)
   * - omit a definition of which a worker holds another entry, as far as the first 100 entries of each priority show it:
   *   that worker has the code (unclaimed/a-live-claim-shows-that-a-worker-has-the-code)
   * - list an entry whose claim has lapsed, from the end of its lease
   *   (unclaimed/a-lapsed-claim-counts-from-its-end)
   * - list the longest waiting first, at most `limit` (unclaimed/the-longest-waiting-is-first)
   */
  findUnclaimedWork(params: FindUnclaimedWorkParams): Promise<readonly UnclaimedWork[]>;
}
