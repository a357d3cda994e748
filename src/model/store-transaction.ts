/** The result of a statement. */
export interface StatementResult<Row> {
  /** The rows of a query or a RETURNING clause; empty otherwise. */
  readonly rows: Row[];
  /** The number of rows that were read or changed. */
  readonly rowCount: number | null;
}

/**
 * An open transaction of the store, as `ctx.transaction` passes it. On PostgreSQL it is also a client of `pg`
 * (`PostgresTransaction`), on SQLite it also has `prepare` and `exec` (`SqliteTransaction`).
 */
export interface StoreTransaction {
  /** Runs one statement with the parameters `$1`, `$2`, … on both stores. */
  query<Row extends object = Record<string, unknown>>(
    text: string,
    values?: readonly unknown[],
  ): Promise<StatementResult<Row>>;
}
