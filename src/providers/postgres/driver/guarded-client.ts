import type pg from 'pg';
import type { PerdureError } from '../../../model/failures/errors.ts';
import type { StoreTransaction } from '../../../model/store-transaction.ts';
import {
  assertAllowed,
  transactionClosed,
  type ForbiddenStatements,
} from '../../shared/transaction-statements.ts';

/**
 * The transaction of `ctx.transaction` on PostgreSQL: a client of `pg` with an open transaction. Pass it to drizzle, kysely
 * or plain SQL. `release` does nothing.
 */
export type PostgresTransaction = pg.PoolClient & StoreTransaction;

const forbidden: ForbiddenStatements = {
  keywords: new Set(['BEGIN', 'START', 'COMMIT', 'END', 'ROLLBACK', 'ABORT', 'PREPARE']),
  advice: 'Throw to roll back, return to commit, or use a savepoint.',
};

type Query = (config: unknown, ...rest: unknown[]) => unknown;

/** A view of a pooled client during a transaction. It ends with the closure. */
export class GuardedClient {
  readonly client: PostgresTransaction;
  readonly #query: Query;
  #closed: PerdureError | undefined;
  #failure: { readonly error: unknown } | undefined;
  readonly #pending = new Set<Promise<unknown>>();

  constructor(client: pg.PoolClient) {
    this.#query = client.query.bind(client);
    const own: Readonly<Record<string, unknown>> = {
      query: (config: unknown, ...rest: unknown[]) => this.#run(config, rest),
      release: () => undefined,
      end: () => Promise.reject(transactionClosed('end() is not allowed in its closure')),
    };
    this.client = new Proxy(client, {
      get(target, property) {
        if (typeof property === 'string' && Object.hasOwn(own, property)) return own[property];
        const value: unknown = Reflect.get(target, property, target);
        return typeof value === 'function' ? (value.bind(target) as unknown) : value;
      },
    });
  }

  /** The error of the first statement that failed. */
  get failure(): { readonly error: unknown } | undefined {
    return this.#failure;
  }

  get hasPending(): boolean {
    return this.#pending.size > 0;
  }

  /** Rejects later statements. */
  close(): void {
    this.#closed ??= transactionClosed();
  }

  /** Resolves when no statement is in progress, and the status of the transaction is known. */
  async settled(): Promise<void> {
    while (this.#pending.size > 0) await Promise.allSettled(this.#pending);
    if (this.#failure === undefined) return;
    // A failed statement rejects before the server has reported the status. An empty one returns after it, also in an aborted
    // transaction.
    await (this.#query('') as Promise<unknown>).catch(() => undefined);
  }

  #run(config: unknown, rest: readonly unknown[]): unknown {
    const done = rest.findLast((one) => typeof one === 'function') as
      | ((error: unknown, result?: unknown) => void)
      | undefined;
    const sent = this.#send(config, rest);
    if (done === undefined || !(sent instanceof Promise)) return sent;
    void settleWith(sent, done);
    return undefined;
  }

  #send(config: unknown, rest: readonly unknown[]): unknown {
    const { text, submit } = (typeof config === 'object' ? config : { text: config }) as {
      readonly text?: unknown;
      readonly submit?: unknown;
    };
    const refusal = this.#closed ?? refusalOf(text);
    if (refusal !== undefined) return Promise.reject(refusal);
    // A cursor or a COPY stream submits itself.
    if (typeof submit === 'function') return this.#query(config, ...rest);
    // The extended protocol runs one statement only, so that no text can contain a hidden COMMIT.
    const statement =
      typeof config === 'string'
        ? { text: config, queryMode: 'extended' }
        : { ...(config as object), queryMode: 'extended' };
    const values = rest.find((one) => Array.isArray(one));
    const sent = this.#query(
      statement,
      ...(values === undefined ? [] : [values]),
    ) as Promise<unknown>;
    this.#track(sent);
    return sent;
  }

  #track(sent: Promise<unknown>): void {
    this.#pending.add(sent);
    sent
      .catch((error: unknown) => (this.#failure ??= { error }))
      .finally(() => this.#pending.delete(sent));
  }
}

/** Passes the outcome of a statement to the callback of the application. */
async function settleWith(
  sent: Promise<unknown>,
  done: (error: unknown, result?: unknown) => void,
): Promise<void> {
  let result: unknown;
  try {
    result = await sent;
  } catch (error) {
    done(error);
    return;
  }
  done(undefined, result);
}

/** Returns the error of a statement that a transaction must not run. */
function refusalOf(text: unknown): Error | undefined {
  try {
    if (typeof text === 'string') assertAllowed(text, forbidden);
    return undefined;
  } catch (error) {
    return error as Error;
  }
}
