import type { StoreTransaction } from '../../../model/store-transaction.ts';

/** The result of a statement that returns no rows. */
export interface SqliteRunResult {
  readonly changes: number;
  readonly lastInsertRowid: number | bigint;
}

/** A prepared statement of a `SqliteTransaction`, with the methods of `better-sqlite3`. */
export interface SqliteStatement {
  /** Whether the statement returns rows. */
  readonly reader: boolean;
  run(...values: unknown[]): SqliteRunResult;
  get(...values: unknown[]): unknown;
  all(...values: unknown[]): unknown[];
  /** Returns the first column of each row instead of an object. */
  pluck(toggle?: boolean): this;
  /** Returns each row as an array instead of an object. */
  raw(toggle?: boolean): this;
}

/**
 * The transaction of `ctx.transaction` on SQLite: the file of the store, with the synchronous methods of
 * `better-sqlite3`. It has no BEGIN, COMMIT, ROLLBACK, ATTACH, DETACH, PRAGMA and VACUUM.
 */
export interface SqliteTransaction extends StoreTransaction {
  /** Prepares one statement. */
  prepare(sql: string): SqliteStatement;
  /** Runs one or more statements without parameters. Create triggers with `prepare`. */
  exec(sql: string): this;
}
