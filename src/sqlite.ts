import './require-node.ts';

// The SQLite store, for options beyond those of `Perdure.open`
export { openSqlite } from './providers/sqlite/provider.ts';
export type { SqliteOptions } from './providers/sqlite/provider.ts';
export type {
  SqliteRunResult,
  SqliteStatement,
  SqliteTransaction,
} from './providers/sqlite/driver/sqlite-transaction.ts';
