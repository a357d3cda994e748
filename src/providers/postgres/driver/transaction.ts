import pg from 'pg';
import { PerdureError } from '../../../model/failures/errors.ts';
import type { TransactionConnection } from '../../contract/transactional.ts';
import { fromStoredText } from './arrays.ts';
import { LockedQuery } from './locked-query.ts';

/** A statement that is prepared once per connection under its name. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

/** A statement with its encoded values. */
export type BoundStatement = readonly [statement: Statement, values: readonly unknown[]];

/** A statement whose values are encoded when it is sent. */
export interface DeferredStatement {
  readonly statement: Statement;
  readonly encode: () => readonly unknown[];
}

/**
 * One connection inside a transaction. Statements that are sent without awaiting each other share a round trip. After a
 * failed statement, later ones fail too.
 */
export interface Transaction {
  /** Runs a statement and returns its rows. */
  query<Row extends object>(
    statement: Statement,
    values: readonly unknown[],
  ): Promise<readonly Row[]>;
  /** Runs a statement and returns the number of rows it changed. */
  execute(statement: Statement, values: readonly unknown[]): Promise<number>;
}

// By type oid: int8 and text. Keys and times are integers below 2^53.
const parsers: Readonly<Partial<Record<number, (value: string) => unknown>>> = {
  20: Number,
  25: fromStoredText,
};

/** Column parsers for Perdure statements. Other users of the driver keep its defaults. */
const columnTypes: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format: 'text' | 'binary') =>
    (format === 'binary' ? undefined : parsers[oid]) ??
    (pg.types.getTypeParser(oid, format) as unknown)) as typeof pg.types.getTypeParser,
};

/** A transaction on a pooled client. */
export class ClientTransaction implements Transaction {
  readonly #client: pg.ClientBase;
  readonly #prepare: boolean;

  constructor(client: pg.ClientBase, { prepare }: { readonly prepare: boolean }) {
    this.#client = client;
    this.#prepare = prepare;
  }

  async query<Row extends object>(
    statement: Statement,
    values: readonly unknown[],
  ): Promise<readonly Row[]> {
    const { rows } = await this.#run<Row>(statement, values);
    return rows;
  }

  async execute(statement: Statement, values: readonly unknown[]): Promise<number> {
    const { rowCount } = await this.#run(statement, values);
    return rowCount ?? 0;
  }

  #run<Row extends object>(
    { name, text }: Statement,
    values: readonly unknown[],
  ): Promise<pg.QueryResult<Row>> {
    return this.#client.query<Row, unknown[]>({
      text,
      values: values as unknown[],
      types: columnTypes,
      ...(this.#prepare && { name }),
    });
  }
}

/** Runs two prepared statements in one implicit transaction. Returns the rows of the second one. */
export function queryLocked<Row extends object>(
  client: pg.PoolClient,
  lock: BoundStatement,
  deferred: DeferredStatement,
): Promise<readonly Row[]> {
  return new Promise((resolve, reject) => {
    const locked = new LockedQuery(lock, deferred, columnTypes, (error, result) => {
      if (error) reject(error);
      else resolve(result.rows as Row[]);
    });
    client.query(locked as unknown as pg.Submittable);
  });
}

/** A transaction that the application has begun and will end, on its own connection. */
export class CallerTransaction implements Transaction {
  readonly #connection: TransactionConnection;
  #last: Promise<unknown> = Promise.resolve();

  constructor(connection: TransactionConnection) {
    // A pool may use a different connection for each statement.
    if ('totalCount' in connection && 'idleCount' in connection) throw notBegun();
    this.#connection = connection;
  }

  async query<Row extends object>(
    statement: Statement,
    values: readonly unknown[],
  ): Promise<readonly Row[]> {
    const { rows } = await this.#run(statement, values);
    return rows as Row[];
  }

  async execute(statement: Statement, values: readonly unknown[]): Promise<number> {
    const { rowCount } = await this.#run(statement, values);
    return rowCount ?? 0;
  }

  // Sequential, because the connection may not support pipelining. Unprepared, because it belongs to the application.
  #run({ text }: Statement, values: readonly unknown[]) {
    const statement = { text, values: values as unknown[], types: columnTypes };
    const result = this.#last.then(async () => {
      const response = await this.#connection.query(statement);
      // Checked after the statement, because BEGIN may have been queued before it. The first statement of a write only reads.
      if (isOutside(this.#connection)) throw notBegun();
      return response;
    });
    this.#last = result.catch(() => undefined);
    return result;
  }
}

/** Whether a driver client reports that no transaction is open. Returns `false` for other connections. */
function isOutside(
  connection: TransactionConnection & { readonly getTransactionStatus?: unknown },
): boolean {
  const { getTransactionStatus } = connection;
  return (
    typeof getTransactionStatus === 'function' && getTransactionStatus.call(connection) === 'I'
  );
}

function notBegun(): PerdureError {
  return new PerdureError(
    'INVALID_INPUT',
    'withTransaction: the connection has no open transaction. Call BEGIN on a single client, not on a pool, and write before COMMIT.',
  );
}
