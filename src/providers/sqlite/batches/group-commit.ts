import type Database from 'better-sqlite3';
import type { PerdureError } from '../../../model/failures/errors.ts';
import type { Definitions } from '../tables/definitions.ts';
import { Effects, type Topic } from '../../shared/effects.ts';
import type { DeferredWrites } from './deferred-writes.ts';
import { isBusy, isFaultOfItem, toProviderError } from '../driver/sqlite-errors.ts';
import type { StoreClock } from '../driver/store-clock.ts';
import { platform } from '../../../model/platform.ts';

/** The result of one item: its value, or the error for which it was rolled back. */
export type Isolated<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: Error };

/** The transaction that an operation runs in. */
export interface Scope {
  /** The store's clock when the write lock was taken. The same for the whole group. */
  readonly now: number;
  /** What to notify after the commit. */
  readonly effects: Effects;
  /** Runs the work of one item. If it throws, only its own writes are rolled back. */
  isolate<T>(operation: string, work: () => T): Isolated<T>;
}

/** A fetch that claims due work, or waits for it. */
export interface Fetch<T> {
  readonly operation: string;
  readonly topic: Topic;
  /** Equal for fetches that wait for the same work. */
  readonly key: string;
  readonly max: number;
  readonly waitMs: number;
  readonly signal?: AbortSignal | undefined;
  /** When the next work is due, read without the write lock. A past time means now. */
  readonly nextAt: (now: number) => number;
  readonly claim: (scope: Scope) => readonly T[];
}

/** Runs the reads and writes of a store. */
export interface StoreAccess {
  /** The store's clock, for reads. A transaction has its own time. */
  now(): number;
  /** Throws `CLOSED` after the store was closed. */
  assertOpen(operation: string): void;
  /** Runs `work` for each item in one transaction, which other operations may share. Resolves after the commit. */
  write<Item, Result>(
    operation: string,
    items: readonly Item[],
    work: (scope: Scope, item: Item) => Result,
  ): Promise<readonly Result[]>;
  /** Runs `work` in one transaction, which other operations may share. Resolves after the commit. */
  writeOnce<T>(operation: string, work: (scope: Scope) => T): Promise<T>;
  /** Runs `work` immediately, in one snapshot. */
  read<T>(operation: string, work: () => T): Promise<T>;
  /** Claims due work, or waits for it up to `waitMs`. */
  fetch<T>(fetch: Fetch<T>): Promise<readonly T[]>;
}

interface Pending {
  readonly operation: string;
  readonly work: (scope: Scope) => unknown;
  readonly since: number;
  readonly resolve: (value: never) => void;
  readonly reject: (error: Error) => void;
}

// Bounds how long one transaction blocks the event loop and holds the write lock.
const maxGroup = 1_000;

// These operations do not read deferred writes.
const committingTurns = new Set(['createInstances', 'ackTurns', 'ackOrchestrationItems']);

/**
 * Commits all operations of one iteration of the event loop in one transaction, so that a group costs one fsync.
 *
 * G1. A group first runs without savepoints, which cost 2-3 µs per item. If an item throws, the group is rolled back
 *     and runs again with a savepoint per item. So an operation can run twice, and must only affect the database
 *     and its scope.
 * G2. Promises settle, waiters wake and hints are sent only after COMMIT.
 * G3. While another process holds the write lock, the group retries without blocking the event loop.
 * G4. While a transaction of the application is open on the connection, groups wait for its end. Between two of them,
 *     the operations that have waited are committed.
 * G5. Deferred writes are flushed before any operation that may read them, and before COMMIT. With savepoints they are
 *     flushed before the savepoint of their item is released.
 */
export class GroupCommit {
  readonly #db: Database.Database;
  readonly #clock: StoreClock;
  readonly #definitions: Definitions;
  readonly #deferred: DeferredWrites;
  readonly #busyTimeoutMs: number;
  readonly #onStep: () => void;
  readonly #onSetBack: (scope: Scope) => void;
  readonly #storeError: (operation: string) => PerdureError | undefined;
  readonly #beforeCommit: (scope: Scope) => void;
  readonly #onCommitted: (effects: Effects) => void;
  readonly #begin;
  readonly #commit;
  readonly #rollback;
  readonly #savepoint;
  readonly #release;
  readonly #rollbackTo;
  #queue: Pending[] = [];
  #flushIsDue = false;
  #since = 0;
  #attempts = 0;
  #retry: NodeJS.Timeout | undefined;
  #drained: (() => void)[] = [];
  /** Whether a transaction of the application is open. */
  #isHeld = false;
  readonly #holders: (() => void)[] = [];

  constructor(options: {
    readonly db: Database.Database;
    readonly clock: StoreClock;
    readonly definitions: Definitions;
    readonly deferredWrites: DeferredWrites;
    readonly busyTimeoutMs: number;
    /** Called first in the transaction after the machine's clock was stepped. */
    readonly onStep: () => void;
    /** Called first in the transaction after the store's clock was set back. */
    readonly onSetBack: (scope: Scope) => void;
    /** Called before each COMMIT. Returns an error if the store must not be written. */
    readonly storeError: (operation: string) => PerdureError | undefined;
    /** Called last in the transaction. */
    readonly beforeCommit: (scope: Scope) => void;
    readonly onCommitted: (effects: Effects) => void;
  }) {
    this.#db = options.db;
    this.#clock = options.clock;
    this.#definitions = options.definitions;
    this.#deferred = options.deferredWrites;
    this.#busyTimeoutMs = options.busyTimeoutMs;
    this.#onStep = options.onStep;
    this.#onSetBack = options.onSetBack;
    this.#storeError = options.storeError;
    this.#beforeCommit = options.beforeCommit;
    this.#onCommitted = options.onCommitted;
    this.#begin = this.#db.prepare('BEGIN IMMEDIATE');
    this.#commit = this.#db.prepare('COMMIT');
    this.#rollback = this.#db.prepare('ROLLBACK');
    this.#savepoint = this.#db.prepare('SAVEPOINT item');
    this.#release = this.#db.prepare('RELEASE item');
    this.#rollbackTo = this.#db.prepare('ROLLBACK TO item');
  }

  /** Runs the work in the next group. Resolves after its commit. */
  run<T>(operation: string, work: (scope: Scope) => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      // One reading for all operations of an iteration of the event loop.
      if (!this.#flushIsDue) this.#since = platform.monotonic();
      this.#queue.push({ operation, work, since: this.#since, resolve, reject });
      this.#scheduleFlush();
    });
  }

  /** Resolves when the queue is empty and no transaction of the application is open. */
  drain(): Promise<void> {
    if (this.#queue.length === 0 && !this.#isHeld) return Promise.resolve();
    return new Promise((resolve) => this.#drained.push(resolve));
  }

  /** Keeps groups from committing until `release`. First come, first served. */
  async hold(): Promise<void> {
    if (this.#isHeld) await new Promise<void>((resolve) => this.#holders.push(resolve));
    this.#isHeld = true;
  }

  /** Commits the operations that have waited, then admits the next holder. */
  release(): void {
    this.#isHeld = false;
    if (this.#retry === undefined && this.#queue.length > 0) this.#flush();
    const next = this.#holders.shift();
    if (next !== undefined) {
      // Set before the holder continues, so that no other one comes first.
      this.#isHeld = true;
      next();
    } else if (this.#queue.length === 0) this.#settleDrained();
  }

  /** Begins the transaction of a holder. Throws SQLITE_BUSY while another process writes. */
  begin(): void {
    this.#begin.run();
  }

  /** Runs the work last in the transaction of a holder, and commits it. Rolls back if the work throws. */
  finish<T>(work: (scope: Scope) => T): T {
    const finished = this.#complete(false, work);
    this.#onCommitted(finished.effects);
    return finished.value;
  }

  /** Rolls back the transaction of a holder, unless a statement has already done so. */
  rollback(): void {
    if (this.#db.inTransaction) this.#rollback.run();
    this.#definitions.dropUnconfirmed();
  }

  #settleDrained(): void {
    for (const drained of this.#drained.splice(0)) drained();
  }

  #scheduleFlush(): void {
    if (this.#flushIsDue || this.#isHeld || this.#retry !== undefined) return;
    this.#flushIsDue = true;
    platform.setImmediate(() => {
      this.#flushIsDue = false;
      this.#flush();
    });
  }

  #flush(): void {
    // The release flushes.
    if (this.#isHeld) return;
    const group = this.#queue.splice(0, maxGroup);
    try {
      this.#settle(group);
      this.#attempts = 0;
    } catch (error) {
      if (isBusy(error)) this.#retryLater(group, error);
      else {
        for (const { operation, reject } of group)
          reject(this.#storeError(operation) ?? toProviderError(operation, error));
      }
    }
    if (this.#queue.length > 0) this.#scheduleFlush();
    else if (this.#holders.length === 0) this.#settleDrained();
  }

  #settle(group: readonly Pending[]): void {
    const { results, effects } = this.#commitGroup(group);
    for (let index = 0; index < results.length; index++) {
      const result = results[index];
      if (result?.ok === true) group[index]?.resolve(result.value as never);
      else if (result !== undefined) group[index]?.reject(result.error);
    }
    this.#onCommitted(effects);
  }

  #commitGroup(group: readonly Pending[]): {
    readonly results: readonly Isolated<unknown>[];
    readonly effects: Effects;
  } {
    try {
      return this.#transact(group, false);
    } catch (error) {
      if (!isFaultOfItem(error)) throw error;
      return this.#transact(group, true);
    }
  }

  #transact(group: readonly Pending[], withSavepoints: boolean) {
    this.#begin.run();
    const { value: results, effects } = this.#complete(withSavepoints, (scope) =>
      group.map(({ operation, work }) => {
        if (!committingTurns.has(operation)) this.#deferred.flush();
        return scope.isolate(operation, () => work(scope));
      }),
    );
    return { results, effects };
  }

  /** Runs the work in the open transaction, and commits it. Rolls back if anything throws. */
  #complete<T>(
    withSavepoints: boolean,
    work: (scope: Scope) => T,
  ): { readonly value: T; readonly effects: Effects } {
    try {
      const effects = new Effects();
      const isolate = withSavepoints
        ? <R>(operation: string, run: () => R) => this.#isolate(operation, run, effects)
        : <R>(_: string, run: () => R): Isolated<R> => ({ ok: true, value: run() });
      const scope: Scope = { now: this.#readClock(), effects, isolate };
      if (this.#clock.wasSetBack) this.#onSetBack(scope);
      const value = work(scope);
      this.#deferred.flush();
      this.#beforeCommit(scope);
      const storeError = this.#storeError('commit');
      if (storeError !== undefined) throw storeError;
      this.#commit.run();
      this.#clock.markShared();
      this.#definitions.confirm();
      return { value, effects };
    } finally {
      // Also after a failed COMMIT. Some errors have already rolled back.
      if (this.#db.inTransaction) {
        this.#rollback.run();
      }
      this.#definitions.dropUnconfirmed();
      this.#deferred.discard();
    }
  }

  #readClock(): number {
    const now = this.#clock.now();
    if (!this.#clock.hasUnsharedPlan) return now;
    this.#onStep();
    return this.#clock.now();
  }

  #isolate<T>(operation: string, work: () => T, effects: Effects): Isolated<T> {
    const mark = effects.mark();
    // Writes of earlier items must not be rolled back with this one.
    this.#deferred.flush();
    this.#savepoint.run();
    try {
      const value = work();
      this.#deferred.flush();
      this.#release.run();
      return { ok: true, value };
    } catch (error) {
      if (!isFaultOfItem(error) || !this.#db.inTransaction) throw error;
      this.#rollbackTo.run();
      this.#release.run();
      this.#definitions.dropUnconfirmed();
      this.#deferred.discard();
      effects.rollbackTo(mark);
      return { ok: false, error: toProviderError(operation, error) };
    }
  }

  #retryLater(group: readonly Pending[], error: unknown): void {
    const deadline = platform.monotonic() - this.#busyTimeoutMs;
    const patient = group.filter(({ since }) => since > deadline);
    for (const pending of group) {
      if (pending.since <= deadline) pending.reject(toProviderError(pending.operation, error));
    }
    if (patient.length === 0) return;
    this.#queue.unshift(...patient);
    this.#attempts += 1;
    // Jitter keeps processes from colliding again.
    const delayMs = platform.random() * Math.min(2 ** this.#attempts, 20);
    this.#retry = platform.setTimeout(() => {
      this.#retry = undefined;
      this.#flush();
    }, delayMs);
  }
}
