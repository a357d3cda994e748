import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout } from 'node:timers';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { PerdureError } from '../../../model/failures/errors.ts';
import type { ConnectionSettings } from './options.ts';
import {
  isConnectionLost,
  isRefusedCommit,
  isTransient,
  spoilsConnection,
  toProviderError,
  unknownOutcome,
} from './postgres-errors.ts';
import { ClientTransaction, type Statement, type Transaction } from './transaction.ts';

export type { Statement, Transaction } from './transaction.ts';

/**
 * A pool of connections, and the ways to use one.
 *
 * C1. Whatever meets a transient error before its COMMIT was sent is run again on another connection, with jitter,
 *     until the budget is used up. So the work may run more than once, and must have no effect but on the database.
 * C2. A connection that is lost during COMMIT (or during a statement that is its own transaction) leaves the outcome
 *     unknown. That is never run again here: it is thrown as a retryable error with `outcomeUnknown`.
 * C3. A client that fails while it is idle only leaves the pool. No error of a client reaches the process as an
 *     unhandled `error` event.
 * C4. A server that is silent for `answerTimeoutMs` during an operation that a lease depends on counts as a lost
 *     connection. So do all connections that were last heard before that, once they are to be used. The transaction of
 *     the silent one is ended from another connection, because it may hold rows until the server notices.
 */
export class Connections {
  readonly #pool: pg.Pool;
  readonly #prepare: boolean;
  readonly #begin: string;
  readonly #hasTransactionSettings: boolean;
  readonly #retry: RetryBudget;
  readonly #answerTimeoutMs: number;
  readonly #onSilence: () => void;
  /** When clients in the pool were last heard. */
  readonly #heardAt = new WeakMap<pg.PoolClient, number>();
  /** Since when the server was silent on a connection, the last time that happened. */
  #silentSince = Number.NEGATIVE_INFINITY;
  readonly #closing = new AbortController();
  #closed: Promise<void> | undefined;

  /** `onSilence` is called after a connection went silent: others may be dead, too. */
  constructor(settings: ConnectionSettings, onSilence: () => void = () => undefined) {
    this.#pool = new pg.Pool({
      ...settings.client,
      max: settings.poolSize,
      connectionTimeoutMillis: settings.connectTimeoutMs,
      idleTimeoutMillis: settings.idleTimeoutMs,
      // BEGIN travels with the first statement: one round trip less.
      pipeline: true,
    });
    // The pool has already dropped the client; whoever needs one next meets the trouble, with somebody to tell.
    this.#pool.on('error', () => undefined);
    // The pool listens to idle clients only. From here on every client has a listener: the server may end a connection
    // in the same packet that made it ready, before `connect` resolves. The statements of the client get the error too.
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

  /** BEGIN … COMMIT on one connection; rolled back when the work throws. */
  transaction<T>(operation: string, work: (tx: Transaction) => Promise<T>): Promise<T> {
    return this.#use(operation, async (client, tx) => {
      const value = await this.#begun(client, () => work(tx));
      await commit(operation, client);
      return value;
    });
  }

  /**
   * BEGIN, statements and COMMIT in one round trip. The work sends all its statements at once: whatever they answer, the
   * transaction is committed, or rolled back if one of them fails.
   */
  pipeline<T>(operation: string, work: (tx: Transaction) => Promise<T>): Promise<T> {
    return this.#use(operation, async (client, tx) => {
      const [begun, worked, committed] = await Promise.allSettled([
        client.query(this.#begin),
        work(tx),
        commit(operation, client),
      ]);
      // The COMMIT was sent along, so it may have happened, whichever answer was lost.
      const lost = [begun, worked].find(
        (sent) => sent.status === 'rejected' && isConnectionLost(sent.reason),
      );
      if (lost?.status === 'rejected') throw unknownOutcome(operation, lost.reason);
      if (begun.status === 'rejected') throw begun.reason;
      if (worked.status === 'rejected') throw worked.reason;
      if (committed.status === 'rejected') throw committed.reason;
      return worked.value;
    });
  }

  /** Reads, tried again as a whole; without a transaction around them, unless the settings need one. */
  read<T>(operation: string, work: (tx: Transaction) => Promise<T>): Promise<T> {
    return this.#use(operation, async (client, tx) => {
      if (!this.#hasTransactionSettings) return work(tx);
      const value = await this.#begun(client, () => work(tx));
      await client.query('COMMIT');
      return value;
    });
  }

  /** One statement that is its own transaction: two round trips less than `transaction`. */
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

  /** Begins a transaction, which whoever calls ends; rolled back when the work throws. */
  async #begun<T>(client: pg.PoolClient, work: () => Promise<T>): Promise<T> {
    const begun = client.query(this.#begin);
    // Where it fails, so do the statements that follow it.
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

  /** Waits for what is under way, then closes every connection. Idempotent. */
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
    const stopWatch = isLeaseBound(operation)
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
      this.#heardAt.set(client, performance.now());
      client.release(spoiled);
    }
  }

  /** A connection of the pool, or a new one, that is not as silent as another one was. */
  async #checkOut(): Promise<pg.PoolClient> {
    for (;;) {
      const client = await this.#pool.connect();
      if ((this.#heardAt.get(client) ?? Infinity) >= this.#silentSince) return client;
      client.connection.stream.destroy();
      client.release(true);
    }
  }

  #silent(client: pg.PoolClient): void {
    this.#silentSince = performance.now() - this.#answerTimeoutMs;
    client.connection.stream.destroy(silentError(this.#answerTimeoutMs));
    this.#endBackend(Reflect.get(client, 'processID'));
    this.#onSilence();
  }

  /** Ends the transaction of a silent connection on the server. A pooler does not tell which process that is. */
  #endBackend(pid: unknown): void {
    if (!this.#prepare || typeof pid !== 'number') return;
    const values = [pid, this.#answerTimeoutMs];
    // What cannot be reached ends by itself, after `idle_in_transaction_session_timeout` at the latest.
    this.statement('endBackend', endBackend, values).catch(() => undefined);
  }
}

// Not one that has its number from a process that ended meanwhile: it would be younger.
const endBackend: Statement = {
  name: 'perdure_end_backend',
  text: `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid = $1::int AND datname = current_database() AND usename = current_user
      AND application_name = current_setting('application_name')
      AND backend_start < clock_timestamp() - $2::int * interval '1 millisecond'`,
};

async function commit(operation: string, client: pg.PoolClient): Promise<void> {
  let command: string;
  try {
    ({ command } = await client.query('COMMIT'));
  } catch (error) {
    throw isRefusedCommit(error) ? error : unknownOutcome(operation, error);
  }
  // PostgreSQL answers the COMMIT of a transaction in which a statement has failed with a rollback, not an error.
  if (command !== 'COMMIT') {
    throw new Error('a statement had failed, so the transaction was rolled back');
  }
}

function closed(operation: string): PerdureError {
  return new PerdureError(
    'CLOSED',
    `${operation}: the store is closed. Open it again, or close it later.`,
  );
}

/** How long a call is tried again, and when that is over early. */
export interface RetryBudget {
  readonly budgetMs: number;
  /** Aborted when the store closes: what fails from then on has failed. */
  readonly signal: AbortSignal;
}

const firstDelayMs = 5;
// A server that has come back is used again within half a second.
const maxDelayMs = 500;

/** Calls, and again with growing, jittered waits while an error is transient and the budget lasts; then throws it. */
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
      // The error says more than an interrupted pause would.
      await delay(pauseMs, undefined, { signal }).catch(() => Promise.reject(error as Error));
    }
  }
}

/**
 * Operations that a lease depends on, and the short ones beside them: their answer is worth nothing once the lease has
 * expired. Deletions, lists and counts are not among them: they may take as long as a statement may.
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

/** Whether an operation must be answered within `answerTimeoutMs`. */
export function isLeaseBound(operation: string): boolean {
  return leaseBound.has(operation);
}

// A watch looks four times per deadline, so silence is found at most a quarter late.
const looks = 4;

/** Calls back once a socket has neither sent nor received a byte for `ms`; returns how to stop. */
export function watchSilence(stream: Duplex, ms: number, onSilent: () => void): () => void {
  let seen = Number.NaN;
  let quietLooks = 0;
  let timer = setTimeout(look, ms / looks);
  function look(): void {
    const traffic = trafficOf(stream);
    quietLooks = traffic === seen ? quietLooks + 1 : 0;
    seen = traffic;
    if (quietLooks === looks) onSilent();
    else timer = setTimeout(look, ms / looks);
  }
  return () => clearTimeout(timer);
}

function trafficOf(stream: Duplex): number {
  if (!(stream instanceof Socket)) return 0;
  return stream.bytesRead + stream.bytesWritten - stream.writableLength;
}

/** The error of statements whose connection went silent: their outcome is that of a lost connection. */
export function silentError(ms: number): Error {
  return Object.assign(new Error(`the server did not answer for ${ms} ms`), { code: 'ETIMEDOUT' });
}
