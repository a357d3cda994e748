import { PerdureError } from '../model/failures/errors.ts';
import { randomToken } from '../model/values/random-id.ts';
import type { StopResult } from '../providers/contract/cancellation.ts';
import type { Provider } from '../providers/contract/provider.ts';
import type { TransactionConnection } from '../providers/contract/transactional.ts';
import type { ClientSurface } from './client.ts';
import type { CancelOptions } from './managing/stop-request.ts';

/**
 * Writes as part of a transaction of the application: starts, task runs, events and cancels commit or roll back with it.
 * Wait for results only after the commit.
 */
export interface TransactionClient extends Pick<
  ClientSurface,
  'start' | 'runTask' | 'runTasks' | 'runFlow' | 'raiseEvent'
> {
  /** Asks an instance to stop. */
  cancel(id: string, options?: Omit<CancelOptions, 'wait'>): Promise<StopResult>;
}

/** Returns the provider with writes that are part of the transaction. Throws `INVALID_INPUT` if it has none. */
export function providerWithin(provider: Provider, transaction: ApplicationTransaction): Provider {
  const connection = connectionOf(transaction);
  if (connection === undefined) {
    throw new PerdureError(
      'INVALID_INPUT',
      'Invalid transaction in withTransaction(): pass a drizzle or kysely transaction, a `pg` client inside a transaction, or an object with its query().',
    );
  }
  const writes = provider.within?.(connection);
  if (writes === undefined) {
    throw new PerdureError(
      'INVALID_INPUT',
      `The store (${provider.name}) cannot join a transaction. Open a PostgreSQL store, or call the client without withTransaction().`,
    );
  }
  return Object.assign(Object.create(provider) as Provider, writes, {
    hints: (listener: Parameters<Provider['hints']>[0]) => provider.hints(listener),
  });
}

/** A kysely transaction. */
interface KyselyTransaction {
  readonly isTransaction: true;
  withoutPlugins(): {
    executeQuery(query: never): Promise<{
      readonly rows: unknown[];
      readonly numAffectedRows?: bigint | undefined;
    }>;
  };
}

/** A drizzle transaction on the `pg` driver. */
interface DrizzleTransaction {
  readonly _: { readonly session: object };
}

/** A transaction of the application: a `pg` client, a drizzle or kysely transaction, or an object with the `query` of `pg`. */
export type ApplicationTransaction = TransactionConnection | KyselyTransaction | DrizzleTransaction;

/** Returns the connection of a transaction; `undefined` if the value is not one. */
function connectionOf(transaction: unknown): TransactionConnection | undefined {
  if (typeof transaction !== 'object' || transaction === null) return undefined;
  if (isConnection(transaction)) return transaction;
  if (isKysely(transaction)) return overKysely(transaction);
  // The `pg` client on which drizzle began the transaction.
  const { client } = ((transaction as Partial<DrizzleTransaction>)._?.session ?? {}) as {
    readonly client?: object | null;
  };
  return isConnection(client) ? client : undefined;
}

function isConnection(value: object | null | undefined): value is TransactionConnection {
  const { query } = (value ?? {}) as { readonly query?: unknown };
  return typeof query === 'function';
}

function isKysely(value: object): value is KyselyTransaction {
  const { isTransaction, withoutPlugins } = value as Partial<KyselyTransaction>;
  return isTransaction === true && typeof withoutPlugins === 'function';
}

function overKysely(transaction: KyselyTransaction): TransactionConnection {
  // Plugins must not rename Perdure's columns.
  const plain = transaction.withoutPlugins();
  return {
    async query({ text, values }) {
      const { rows, numAffectedRows } = await plain.executeQuery(compiled(text, values) as never);
      return { rows: rows as object[], rowCount: Number(numAffectedRows ?? rows.length) };
    },
  };
}

/** Builds the object that `CompiledQuery.raw` of kysely returns. */
function compiled(sql: string, parameters: readonly unknown[]): object {
  return {
    sql,
    parameters,
    query: { kind: 'RawNode', sqlFragments: [sql], parameters: [] },
    queryId: { queryId: randomToken() },
  };
}
