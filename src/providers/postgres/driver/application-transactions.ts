import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { PerdureError, ProviderError } from '../../../model/failures/errors.ts';
import type { StoreTransaction } from '../../../model/store-transaction.ts';
import { randomToken } from '../../../model/values/random-id.ts';
import { transactionClosed, withinLimits } from '../../shared/transaction-statements.ts';
import { one, prepare } from './columns.ts';
import { commit, watchSilence, withinBudget, type Connections } from './connection.ts';
import { FairSlots } from './fair-slots.ts';
import { GuardedClient } from './guarded-client.ts';
import type { ApplicationSettings } from './options.ts';
import { errorCode, isConnectionLost, isTransient, toProviderError } from './postgres-errors.ts';
import { ClientTransaction, type Statement, type Transaction } from './transaction.ts';

const operation = 'transact';

/** Writes of the application, and what the store writes after them. */
export interface ApplicationWork<Ack, Result> {
  readonly write: (tx: StoreTransaction) => Promise<Ack>;
  /** Writes the ack. With `commit: false` the transaction is rolled back. */
  readonly finish: (
    tx: Transaction,
    ack: Ack,
  ) => Promise<{ readonly commit: boolean; readonly result: Result }>;
  readonly timeoutMs: number | undefined;
  readonly signal: AbortSignal | undefined;
}

/** The transaction was rolled back and can run again. */
class RolledBack extends Error {}

/**
 * Runs closures of the application in transactions on connections of their own, and lets the store write in the same
 * transactions.
 *
 * A1. The connections have the settings of the application: its `search_path`, its planner settings, its role. They are reset
 *     before each transaction. The store's own statements name their schema, and run with their own settings.
 * A2. Closures wait for a connection in order, and never for a connection of the store's pool.
 * A3. A transaction that conflicted, or whose connection was lost before COMMIT, is rolled back and runs again.
 * A4. If the connection is lost during COMMIT, the status of the transaction decides: it runs again only if it was rolled back.
 */
export class ApplicationTransactions {
  readonly #settings: ApplicationSettings;
  readonly #connections: Connections;
  readonly #slots: FairSlots;
  readonly #closing = new AbortController();
  #pool: pg.Pool | undefined;

  constructor(settings: ApplicationSettings, connections: Connections) {
    this.#settings = settings;
    this.#connections = connections;
    this.#slots = new FairSlots(settings.poolSize);
  }

  /** Runs the closure and the store's writes in one transaction. */
  async run<Ack, Result>(work: ApplicationWork<Ack, Result>): Promise<Result> {
    const release = await this.#slots.take(work.signal);
    try {
      const { retryMs: budgetMs } = this.#settings;
      const retry = { budgetMs, signal: this.#closing.signal };
      return await withinBudget(
        retry,
        (error) => error instanceof RolledBack && work.signal?.aborted !== true,
        () => this.#runOnce(work),
      );
    } catch (error) {
      if (!(error instanceof RolledBack)) throw error;
      work.signal?.throwIfAborted();
      throw toProviderError(operation, error.cause);
    } finally {
      release();
    }
  }

  /** Waits for running transactions, then closes the connections. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#slots.idle();
    await this.#pool?.end();
  }

  async #runOnce<Ack, Result>(work: ApplicationWork<Ack, Result>): Promise<Result> {
    const client = await this.#connect();
    const guarded = new GuardedClient(client);
    let isReusable = false;
    try {
      const marker = randomToken();
      await client.query(this.#settings.begin(marker));
      const ack = await this.#write(guarded, work);
      const result = await this.#finish(client, marker, (tx) => work.finish(tx, ack));
      isReusable = client.getTransactionStatus() === 'I';
      return result;
    } catch (error) {
      isReusable = await rollback(client, guarded);
      throw isRetryable(guarded.failure?.error) || isRetryable(error)
        ? new RolledBack('rolled back', { cause: guarded.failure?.error ?? error })
        : error;
    } finally {
      if (!isReusable && guarded.hasPending) this.#connections.endBackend(client);
      client.release(!isReusable);
    }
  }

  async #connect(): Promise<pg.PoolClient> {
    this.#pool ??= this.#createPool();
    try {
      return await this.#pool.connect();
    } catch (error) {
      if (isTransient(error)) throw new RolledBack('not connected', { cause: error });
      throw toProviderError(operation, error);
    }
  }

  #createPool(): pg.Pool {
    const { client, poolSize, connectTimeoutMs, idleTimeoutMs } = this.#settings;
    const pool = new pg.Pool({
      ...client,
      max: poolSize,
      connectionTimeoutMillis: connectTimeoutMs,
      idleTimeoutMillis: idleTimeoutMs,
    });
    // The next operation gets the error.
    pool.on('error', () => undefined);
    pool.on('connect', (one) => one.on('error', () => undefined));
    return pool;
  }

  async #write<Ack>(
    guarded: GuardedClient,
    { write, timeoutMs = this.#settings.timeoutMs, signal }: ApplicationWork<Ack, unknown>,
  ): Promise<Ack> {
    try {
      return await withinLimits({ ms: timeoutMs, signal }, async () => {
        const ack = await write(guarded.client);
        await guarded.settled();
        const status = guarded.client.getTransactionStatus();
        if (status === 'E') throw aborted(guarded.failure?.error);
        if (status === 'I') throw transactionClosed('a statement has ended it');
        return ack;
      });
    } finally {
      guarded.close();
    }
  }

  async #finish<Result>(
    client: pg.PoolClient,
    marker: string,
    finish: (tx: Transaction) => Promise<{ readonly commit: boolean; readonly result: Result }>,
  ): Promise<Result> {
    const { answerTimeoutMs, ackSettings, prepare: isPrepared } = this.#settings;
    const stopWatch = watchSilence(client.connection.stream, answerTimeoutMs, () =>
      client.connection.stream.destroy(
        Object.assign(new Error('the server did not respond'), { code: 'ETIMEDOUT' }),
      ),
    );
    try {
      await client.query(ackSettings);
      const tx = new SequentialTransaction(new ClientTransaction(client, { prepare: isPrepared }));
      const [state] = await tx.query<{ marker: string | null; xid: string }>(...readState({}));
      if (state?.marker !== marker) throw transactionClosed('a statement has ended it');
      const { commit: isAccepted, result } = await finish(tx).catch((error: unknown) => {
        throw isRetryable(error) ? error : toProviderError(operation, error);
      });
      if (isAccepted) await this.#commit(client, state.xid);
      else await client.query('ROLLBACK');
      return result;
    } finally {
      stopWatch();
    }
  }

  async #commit(client: pg.PoolClient, xid: string): Promise<void> {
    try {
      await commit(operation, client);
    } catch (error) {
      if (!(error instanceof ProviderError) || !error.outcomeUnknown) throw error;
      if (!(await this.#wasCommitted(xid, error))) {
        throw new RolledBack('rolled back', { cause: error });
      }
    }
  }

  /** Reads whether a transaction was committed. Waits while it is in progress. Rejects if that does not end. */
  async #wasCommitted(xid: string, unknown: ProviderError): Promise<boolean> {
    const deadline = performance.now() + this.#settings.retryMs;
    for (;;) {
      const [row] = await this.#connections
        .statement<{ status: string | null }>('readStatus', ...readStatus({ xid }))
        .catch(() => Promise.reject(unknown));
      if (row?.status === 'committed') return true;
      if (row?.status === 'aborted') return false;
      if (performance.now() > deadline) throw unknown;
      await delay(20 + Math.random() * 30);
    }
  }
}

/** Sends one statement at a time: the connections of closures do not pipeline, because cursors and COPY cannot. */
class SequentialTransaction implements Transaction {
  readonly #inner: Transaction;
  #last: Promise<unknown> = Promise.resolve();

  constructor(inner: Transaction) {
    this.#inner = inner;
  }

  query<Row extends object>(
    statement: Statement,
    values: readonly unknown[],
  ): Promise<readonly Row[]> {
    return this.#next(() => this.#inner.query<Row>(statement, values));
  }

  execute(statement: Statement, values: readonly unknown[]): Promise<number> {
    return this.#next(() => this.#inner.execute(statement, values));
  }

  #next<T>(send: () => Promise<T>): Promise<T> {
    const sent = this.#last.then(send);
    this.#last = sent.catch(() => undefined);
    return sent;
  }
}

const readState = prepare(
  'perdure_transaction_state',
  {},
  () =>
    `SELECT current_setting('perdure.transaction', true) AS "marker", pg_current_xact_id()::text AS "xid"`,
);

const readStatus = prepare(
  'perdure_transaction_status',
  { xid: one<string>('text') },
  ({ xid }) => `SELECT pg_xact_status(${xid}::xid8) AS "status"`,
);

/** Ends a transaction. Returns whether the connection can be used again. */
async function rollback(client: pg.PoolClient, guarded: GuardedClient): Promise<boolean> {
  if (guarded.hasPending) return false;
  try {
    await client.query('ROLLBACK');
    return client.getTransactionStatus() === 'I';
  } catch {
    return false;
  }
}

/** Whether the transaction was rolled back for a reason that may not occur again. */
function isRetryable(error: unknown): boolean {
  if (error instanceof RolledBack) return true;
  if (PerdureError.is(error)) return false;
  return isConnectionLost(error) || /^40(001|P01)$/.test(errorCode(error));
}

function aborted(cause: unknown): PerdureError {
  return new PerdureError(
    'TRANSACTION_ABORTED',
    'A statement in ctx.transaction() failed, and PostgreSQL accepts no more statements in its transaction. Rethrow the error, or use a savepoint around the statement.',
    { cause },
  );
}
