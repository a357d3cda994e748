import { PerdureError } from '../../../model/failures/errors.ts';
import type { TransactionConnection } from '../../contract/transactional.ts';
import { columnTypes, type Statement, type Transaction } from './transaction.ts';

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
