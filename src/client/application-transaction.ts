import { randomToken } from '../model/values/random-id.ts';
import type { TransactionConnection } from '../providers/contract/transactional.ts';

/** A transaction of kysely. */
interface KyselyTransaction {
  readonly isTransaction: true;
  withoutPlugins(): {
    executeQuery(query: never): Promise<{
      readonly rows: unknown[];
      readonly numAffectedRows?: bigint | undefined;
    }>;
  };
}

/** A transaction of drizzle, on the `pg` driver. */
interface DrizzleTransaction {
  readonly _: { readonly session: object };
}

/** A transaction of the application: of `pg`, drizzle or kysely, or anything that queries like a client of `pg`. */
export type ApplicationTransaction = TransactionConnection | KyselyTransaction | DrizzleTransaction;

/** What Perdure writes on; `undefined` for something that is no transaction. */
export function connectionOf(transaction: unknown): TransactionConnection | undefined {
  if (typeof transaction !== 'object' || transaction === null) return undefined;
  if (isConnection(transaction)) return transaction;
  if (isKysely(transaction)) return overKysely(transaction);
  // The driver's own client, which drizzle has begun the transaction on.
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
  // Plugins may rename columns, which are none of theirs.
  const plain = transaction.withoutPlugins();
  return {
    async query({ text, values }) {
      const { rows, numAffectedRows } = await plain.executeQuery(compiled(text, values) as never);
      return { rows: rows as object[], rowCount: Number(numAffectedRows ?? rows.length) };
    },
  };
}

/** What `CompiledQuery.raw` of kysely makes. */
function compiled(sql: string, parameters: readonly unknown[]): object {
  return {
    sql,
    parameters,
    query: { kind: 'RawNode', sqlFragments: [sql], parameters: [] },
    queryId: { queryId: randomToken() },
  };
}
