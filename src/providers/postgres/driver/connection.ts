import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout } from 'node:timers';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { PerdureError } from '../../../model/failures/errors.ts';
import { one, prepare } from './columns.ts';
import type { ConnectionSettings } from './options.ts';
import {
  isConnectionLost,
  isRefusedCommit,
  isTransient,
  spoilsConnection,
  toProviderError,
  unknownOutcome,
} from './postgres-errors.ts';
import { LockedQuery } from './locked-query.ts';
import {
  ClientTransaction,
  queryLocked,
  type BoundStatement,
  type DeferredStatement,
  type Statement,
  type Transaction,
} from './transaction.ts';

export type { Statement, Transaction } from './transaction.ts';

/**
 * A connection pool with retries.
 *
 * C1. After a transient error before COMMIT was sent, the work is retried on another connection, with jitter, until the
 *     retry budget is used up. The work may run more than once, so it must have no effects outside the database.
 * C2. If a connection is lost during COMMIT (or during a statement that is its own transaction), the outcome is unknown.
 *     The work is not retried; a retryable error with `outcomeUnknown` is thrown.
 * C3. A client that fails while idle is dropped from the pool. No client error reaches the process as an unhandled
 *     `error` event.
 * C4. If the server is silent for `answerTimeoutMs` during a lease-bound operation, the connection counts as lost. So does
 *     every pooled connection that was last used before the silence began. The silent transaction is ended from another
 *     connection, because it may hold row locks until the server notices.
 */
export class Connections {
  readonly #pool: pg.Pool;
  readonly #prepare: boolean;
  readonly #begin: string;
  readonly #hasTransactionSettings: boolean;
  readonly #retry: RetryBudget;
  readonly #answerTimeoutMs: number;
  readonly #onSilence: () => void;
  /** When pooled clients last completed an operation. */
  readonly #usedAt = new WeakMap<pg.PoolClient, number>();
  /** The start of the most recent silence on any connection. */
  #silentSince = Number.NEGATIVE_INFINITY;
  readonly #closing = new AbortController();
  #closed: Promise<void> | undefined;

  /** `onSilence` is called after a connection went silent, because other connections may be dead too. */
  constructor(settings: ConnectionSettings, onSilence: () => void = () => undefined) {
    this.#pool = new pg.Pool({
      ...settings.client,
      max: settings.poolSize,
      connectionTimeoutMillis: settings.connectTimeoutMs,
      idleTimeoutMillis: settings.idleTimeoutMs,
      // Sends BEGIN together with the first statement, which saves a round trip.
      pipeline: true,
    });
    // The pool has dropped the client. The next operation gets the error.
    this.#pool.on('error', () => undefined);
    // The pool listens to idle clients only. The server may end a connection in the packet that made it ready, before
    // `connect` resolves, so every client gets a listener here. Its statements get the error too.
    this.#pool.on('connect', (client) => client.on('error', () => undefined));
    this.#prepare = settings.prepare;
    this.#begin = ['BEGIN ISOLATION LEVEL READ COMMITTED', ...settings.transactionSettings].join(
      '; ',
    );
    this.#hasTransactionSettings = settings.transactionSettings.length > 0;
    this.#answerTimeoutMs = settings.answerTimeoutMs;
    this.#onSilence = onSilence;
    this.#retry = { budgetMs: settings.retryMs, signal: this.#closing.signal };
  }

  /** Runs `work` in a transaction. Rolls back if it throws. */
  transaction<T>(operation: string, work: (tx: Transaction) => Promise<T>): Promise<T> {
    return this.#use(operation, async (client, tx) => {
      const value = await this.#begun(client, () => work(tx));
      await commit(operation, client);
      return value;
    });
  }

  /**
   * Sends BEGIN, statements and COMMIT in one round trip. `work` must send all statements without awaiting any. The
   * transaction is rolled back if a statement fails.
   */
  pipeline<T>(operation: string, work: (tx: Transaction) => Promise<T>): Promise<T> {
    return this.#use(operation, (client, tx) => this.#pipelined(operation, client, () => work(tx)));
  }

  async #pipelined<T>(
    operation: string,
    client: pg.PoolClient,
    work: () => Promise<T>,
  ): Promise<T> {
    const [begun, worked, committed] = await Promise.allSettled([
      client.query(this.#begin),
      work(),
      commit(operation, client),
    ]);
    // The COMMIT was already sent, so the outcome is unknown whichever response was lost.
    const lost = [begun, worked].find(
      (sent) => sent.status === 'rejected' && isConnectionLost(sent.reason),
    );
    if (lost?.status === 'rejected') throw unknownOutcome(operation, lost.reason);
    if (begun.status === 'rejected') throw begun.reason;
    if (worked.status === 'rejected') throw worked.reason;
    if (committed.status === 'rejected') throw committed.reason;
    return worked.value;
  }

  /** Runs reads, retried as a whole. Uses a transaction only if there are transaction settings. */
  read<T>(operation: string, work: (tx: Transaction) => Promise<T>): Promise<T> {
    return this.#use(operation, async (client, tx) => {
      if (!this.#hasTransactionSettings) return work(tx);
      const value = await this.#begun(client, () => work(tx));
      await client.query('COMMIT');
      return value;
    });
  }

  /** Runs one statement as its own transaction, with two round trips fewer than `transaction`. */
  statement<Row extends object>(
    operation: string,
    statement: Statement,
    values: readonly unknown[],
  ): Promise<readonly Row[]> {
    if (this.#hasTransactionSettings) {
      return this.pipeline(operation, (tx) => tx.query<Row>(statement, values));
    }
    return this.#use(operation, async (_, tx) => {
      try {
        return await tx.query<Row>(statement, values);
      } catch (error) {
        throw isConnectionLost(error) ? unknownOutcome(operation, error) : error;
      }
    });
  }

  /**
   * Runs a statement in one transaction with another that locks its rows before it, in one round trip. Encodes the values
   * of the statement while the server runs the other. Returns the rows of the statement.
   */
  lockedStatement<Row extends object>(
    operation: string,
    lock: BoundStatement,
    deferred: DeferredStatement,
  ): Promise<readonly Row[]> {
    return this.#use(operation, async (client, tx) => {
      const isPrepared =
        this.#prepare &&
        !this.#hasTransactionSettings &&
        LockedQuery.isPrepared(client, [lock[0], deferred.statement]);
      if (!isPrepared) {
        return this.#pipelined(operation, client, async () => {
          const { statement, encode } = deferred;
          const [, rows] = await Promise.all([
            tx.execute(...lock),
            tx.query<Row>(statement, encode()),
          ]);
          return rows;
        });
      }
      try {
        return await queryLocked<Row>(client, lock, deferred);
      } catch (error) {
        throw isConnectionLost(error) ? unknownOutcome(operation, error) : error;
      }
    });
  }

  /** Begins a transaction that the caller ends. Rolls back if `work` throws. */
  async #begun<T>(client: pg.PoolClient, work: () => Promise<T>): Promise<T> {
    const begun = client.query(this.#begin);
    // If BEGIN fails, so do the statements after it.
    begun.catch(() => undefined);
    try {
      const value = await work();
      await begun;
      return value;
    } catch (error) {
      if (!spoilsConnection(error)) await client.query('ROLLBACK');
      throw error;
    }
  }

  /** Waits for running operations, then closes all connections. Idempotent. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.#closing.abort();
    await this.#pool.end();
  }

  async #use<T>(
    operation: string,
    work: (client: pg.PoolClient, tx: Transaction) => Promise<T>,
  ): Promise<T> {
    if (this.#closing.signal.aborted) throw closed(operation);
    try {
      return await withinBudget(this.#retry, isTransient, () => this.#useOnce(operation, work));
    } catch (error) {
      throw toProviderError(operation, error);
    }
  }

  async #useOnce<T>(
    operation: string,
    work: (client: pg.PoolClient, tx: Transaction) => Promise<T>,
  ): Promise<T> {
    const client = await this.#checkOut();
    const stopWatch = leaseBound.has(operation)
      ? watchSilence(client.connection.stream, this.#answerTimeoutMs, () => this.#silent(client))
      : undefined;
    let spoiled = true;
    try {
      const value = await work(client, new ClientTransaction(client, { prepare: this.#prepare }));
      spoiled = false;
      return value;
    } catch (error) {
      spoiled = spoilsConnection(error) || client.getTransactionStatus() !== 'I';
      throw error;
    } finally {
      stopWatch?.();
      this.#usedAt.set(client, performance.now());
      client.release(spoiled);
    }
  }

  /** Returns a connection that was used after the most recent silence, or a new one. */
  async #checkOut(): Promise<pg.PoolClient> {
    for (;;) {
      const client = await this.#pool.connect();
      if ((this.#usedAt.get(client) ?? Infinity) >= this.#silentSince) return client;
      client.connection.stream.destroy();
      client.release(true);
    }
  }

  #silent(client: pg.PoolClient): void {
    this.#silentSince = performance.now() - this.#answerTimeoutMs;
    client.connection.stream.destroy(silentError(this.#answerTimeoutMs));
    this.endBackend(client);
    this.#onSilence();
  }

  /** Ends an abandoned connection on the server. Behind a pooler its process id is unknown. */
  endBackend(client: pg.PoolClient): void {
    const pid: unknown = Reflect.get(client, 'processID');
    if (!this.#prepare || typeof pid !== 'number') return;
    const statement = endBackend({ pid, olderThanMs: this.#answerTimeoutMs });
    // If this fails, the server ends the transaction after `idle_in_transaction_session_timeout`.
    this.statement('endBackend', ...statement).catch(() => undefined);
  }
}

// The age excludes a new backend that reuses the process id.
const endBackend = prepare(
  'perdure_end_backend',
  { pid: one<number>('int'), olderThanMs: one<number>('int') },
  ({ pid, olderThanMs }) => `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid = ${pid} AND datname = current_database() AND usename = current_user
      AND application_name = current_setting('application_name')
      AND backend_start < clock_timestamp() - ${olderThanMs} * interval '1 millisecond'`,
);

/** Sends COMMIT. Throws an error with `outcomeUnknown` if its response was lost. */
export async function commit(operation: string, client: pg.PoolClient): Promise<void> {
  let command: string;
  try {
    ({ command } = await client.query('COMMIT'));
  } catch (error) {
    throw isRefusedCommit(error) ? error : unknownOutcome(operation, error);
  }
  // If a statement has failed, PostgreSQL responds to COMMIT with ROLLBACK instead of an error.
  if (command !== 'COMMIT') {
    throw new Error('the transaction was rolled back because one of its statements failed');
  }
}

function closed(operation: string): PerdureError {
  return new PerdureError(
    'CLOSED',
    `Cannot run ${operation}: the store is closed. Open it again, or close it after its last use.`,
  );
}

/** Limits of retries. */
export interface RetryBudget {
  readonly budgetMs: number;
  /** Aborted when the store closes. A failure after that is not retried. */
  readonly signal: AbortSignal;
}

const firstDelayMs = 5;
// Bounds the delay after a server becomes available again.
const maxDelayMs = 500;

/** Retries `call` on transient errors with exponential backoff and jitter until the budget is used up. */
export async function withinBudget<T>(
  { budgetMs, signal }: RetryBudget,
  isTransient: (error: unknown) => boolean,
  call: () => Promise<T>,
): Promise<T> {
  const deadline = performance.now() + budgetMs;
  for (let delayMs = firstDelayMs; ; delayMs = Math.min(delayMs * 2, maxDelayMs)) {
    try {
      return await call();
    } catch (error) {
      const pauseMs = delayMs * (0.5 + Math.random() / 2);
      if (!isTransient(error) || signal.aborted) throw error;
      if (performance.now() + pauseMs > deadline) throw error;
      // The original error is more useful than the AbortError.
      await delay(pauseMs, undefined, { signal }).catch(() => Promise.reject(error as Error));
    }
  }
}

/**
 * Lease-bound operations: the server must respond within `answerTimeoutMs`, because a later response is useless once the
 * lease has expired. Includes other short operations. Deletions, lists and counts may take `statementTimeoutMs`.
 */
const leaseBound: ReadonlySet<string> = new Set([
  'poll',
  'fetchOrchestrationItems',
  'fetchWorkItems',
  'readHistory',
  'ackOrchestrationItems',
  'ackTurns',
  'ackWorkItems',
  'renewOrchestrationLocks',
  'renewWorkItemLocks',
  'renewSessions',
  'abandonOrchestrationItems',
  'abandonWorkItems',
  'retryWorkItems',
  'markPointOfNoReturn',
  'createInstances',
  'createTasks',
  'enqueueMessages',
  'requestCancel',
  'getInstances',
  'dueSchedules',
  'dueSessions',
  'takeLease',
  'endBackend',
]);

// Silence is detected at most a quarter of the timeout late.
const checksPerTimeout = 4;

/** Calls `onSilent` once a socket has sent and received nothing for `ms`. Returns a function that stops the watch. */
export function watchSilence(stream: Duplex, ms: number, onSilent: () => void): () => void {
  let lastTraffic = Number.NaN;
  let silentChecks = 0;
  let timer = setTimeout(check, ms / checksPerTimeout);
  function check(): void {
    const traffic = trafficOf(stream);
    silentChecks = traffic === lastTraffic ? silentChecks + 1 : 0;
    lastTraffic = traffic;
    if (silentChecks === checksPerTimeout) onSilent();
    else timer = setTimeout(check, ms / checksPerTimeout);
  }
  return () => clearTimeout(timer);
}

function trafficOf(stream: Duplex): number {
  if (!(stream instanceof Socket)) return 0;
  return stream.bytesRead + stream.bytesWritten - stream.writableLength;
}

/** The error of statements on a silent connection. It counts as a lost connection. */
function silentError(ms: number): Error {
  return Object.assign(new Error(`the server did not respond for ${ms} ms`), { code: 'ETIMEDOUT' });
}
