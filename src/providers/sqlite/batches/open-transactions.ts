import { AsyncLocalStorage } from 'node:async_hooks';
import type Database from 'better-sqlite3';
import { PerdureError } from '../../../model/failures/errors.ts';
import { ApplicationTransaction } from '../driver/application-transaction.ts';
import { isBusy, toProviderError } from '../driver/sqlite-errors.ts';
import { migrations } from '../migrations/migrate.ts';
import type { TransactionAck, TransactRequest } from '../../contract/transactional.ts';
import type { CommitResult } from '../../contract/turn.ts';
import { withinLimits } from '../../shared/transaction-statements.ts';
import type { GroupCommit, Scope } from './group-commit.ts';
import { delay, platform } from '../../../model/platform.ts';

const operation = 'transact';

/** Carries a refused ack out of the transaction, which it rolls back. */
class RefusedAck extends Error {
  readonly result: CommitResult;

  constructor(result: CommitResult) {
    super('The ack was refused.');
    this.result = result;
  }
}

/** The transaction whose closure runs in the current asynchronous context. */
const current = new AsyncLocalStorage<ApplicationTransaction>();

/**
 * Runs closures of the application in transactions of the store's connection, one at a time.
 *
 * While a closure runs, the connection's transaction is open, and groups of writes wait. Reads run inside the transaction.
 * They see no change of the store: the ack is written after the closure, without an await before COMMIT.
 */
export class OpenTransactions {
  readonly #db: Database.Database;
  readonly #groupCommit: GroupCommit;
  readonly #timeoutMs: number;
  readonly #busyTimeoutMs: number;
  #ownTables: ReadonlySet<string> | undefined;
  #open: ApplicationTransaction | undefined;

  constructor(options: {
    readonly db: Database.Database;
    readonly groupCommit: GroupCommit;
    /** Default limit of a closure. */
    readonly timeoutMs: number;
    readonly busyTimeoutMs: number;
  }) {
    this.#db = options.db;
    this.#groupCommit = options.groupCommit;
    this.#timeoutMs = options.timeoutMs;
    this.#busyTimeoutMs = options.busyTimeoutMs;
  }

  /** Throws if the caller is the closure of the open transaction, which its own write would wait for. */
  assertOutside(operation: string): void {
    if (this.#open === undefined || current.getStore() !== this.#open) return;
    throw new PerdureError(
      'TRANSACTION_NESTED',
      `${operation}: the closure of ctx.transaction() holds the write lock of the SQLite file. Call the client and the context before or after it.`,
    );
  }

  /** Runs the closure, writes its ack, and commits both. */
  async run(
    { write, timeoutMs = this.#timeoutMs, signal }: TransactRequest,
    writeAck: (scope: Scope, ack: TransactionAck) => CommitResult,
  ): Promise<CommitResult> {
    this.assertOutside(operation);
    await this.#groupCommit.hold();
    try {
      await this.#begin(signal);
      const tx = new ApplicationTransaction(this.#db, this.#tables());
      this.#open = tx;
      const ack = await this.#write(tx, () =>
        withinLimits({ ms: timeoutMs, signal }, () => current.run(tx, async () => write(tx))),
      );
      return this.#finish((scope) => writeAck(scope, ack));
    } finally {
      this.#open = undefined;
      this.#groupCommit.rollback();
      this.#groupCommit.release();
    }
  }

  async #write<T>(tx: ApplicationTransaction, write: () => Promise<T>): Promise<T> {
    try {
      const ack = await write();
      if (tx.broken !== undefined) throw tx.broken;
      return ack;
    } finally {
      tx.close();
    }
  }

  #finish(writeAck: (scope: Scope) => CommitResult): CommitResult {
    try {
      return this.#groupCommit.finish((scope) => {
        const result = writeAck(scope);
        if (!result.ok) throw new RefusedAck(result);
        return result;
      });
    } catch (error) {
      if (error instanceof RefusedAck) return error.result;
      throw toProviderError(operation, error);
    }
  }

  /** Waits for other processes without blocking the event loop. */
  async #begin(signal: AbortSignal | undefined): Promise<void> {
    const deadline = platform.monotonic() + this.#busyTimeoutMs;
    for (;;) {
      signal?.throwIfAborted();
      try {
        this.#groupCommit.begin();
        return;
      } catch (error) {
        if (!isBusy(error) || platform.monotonic() > deadline)
          throw toProviderError(operation, error);
        await delay(platform.random() * 10);
      }
    }
  }

  /** The names of Perdure's tables, which share the file with those of the application. */
  #tables(): ReadonlySet<string> {
    this.#ownTables ??= new Set([
      'perdure_migrations',
      ...migrations.flatMap(({ sql }) =>
        [...sql.matchAll(/CREATE TABLE (\w+)/g)].map(([, name = '']) => name),
      ),
    ]);
    return this.#ownTables;
  }
}
