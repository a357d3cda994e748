import type { TransactionConnection } from '../transactional.ts';
import { columnTypes, type Statement, type Transaction } from './transaction.ts';

/** Statements inside a transaction that the application has begun, and will end, on a connection of its own. */
export class CallerTransaction implements Transaction {
  readonly #connection: TransactionConnection;
  #last: Promise<unknown> = Promise.resolve();

  constructor(connection: TransactionConnection) {
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
    const result = this.#last.then(() => this.#connection.query(statement));
    this.#last = result.catch(() => undefined);
    return result;
  }
}
