import pg from 'pg';
import { fromStoredText } from './stored-text.ts';

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
