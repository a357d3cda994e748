import pg from 'pg';
import { PerdureError } from '../../../model/failures/errors.ts';
import type { TransactionConnection } from '../../contract/transactional.ts';
import { fromStoredText } from './arrays.ts';

/** A statement that is prepared once per connection under its name. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

/**
 * One connection inside one transaction, or a caller's own. Statements that do not need each other's answers may be
 * sent without awaiting in between: they travel together. After one that fails the others fail too.
 */
export interface Transaction {
  /** The rows that a statement returns. */
  query<Row extends object>(
    statement: Statement,
    values: readonly unknown[],
  ): Promise<readonly Row[]>;
  /** How many rows a statement changed. */
  execute(statement: Statement, values: readonly unknown[]): Promise<number>;
}

// By the ids of their types. Keys and times are whole numbers below 2^53.
const parsers: Readonly<Partial<Record<number, (value: string) => unknown>>> = {
  20: Number,
  25: fromStoredText,
};

/** How columns are read. For our statements only: others may want theirs as the driver gives them. */
export const columnTypes: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format: 'text' | 'binary') =>
    (format === 'binary' ? undefined : parsers[oid]) ??
    (pg.types.getTypeParser(oid, format) as unknown)) as typeof pg.types.getTypeParser,
};

/** Statements on one client of the driver, ours or a caller's. */
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

/** Statements inside a transaction that the application has begun, and will end, on a connection of its own. */
export class CallerTransaction implements Transaction {
  readonly #connection: TransactionConnection;
  #last: Promise<unknown> = Promise.resolve();

  constructor(connection: TransactionConnection) {
    // A pool takes another connection for each statement.
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

  // One after the other: the connection need not be in pipeline mode. And unprepared, since it is not ours.
  #run({ text }: Statement, values: readonly unknown[]) {
    const statement = { text, values: values as unknown[], types: columnTypes };
    const result = this.#last.then(async () => {
      const answer = await this.#connection.query(statement);
      // Asked after the statement, before which a BEGIN may have waited; the first of every write changes nothing.
      if (isOutside(this.#connection)) throw notBegun();
      return answer;
    });
    this.#last = result.catch(() => undefined);
    return result;
  }
}

/** Whether a client of the driver says that no transaction is under way; others cannot tell. */
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
    'withTransaction: no transaction was begun on the connection, or it is over. Call BEGIN on a client of its own, not on a pool, and write before its COMMIT.',
  );
}
