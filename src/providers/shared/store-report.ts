import type { SchemaState } from './migrations.ts';

/** The state of a store as its files and its server show it, read without opening the store or changing it. */
export type StoreReport = SqliteReport | PostgresReport;

/** Whether the store can be used. `reason` has the error of the driver. */
export interface StoreAccess {
  readonly kind: 'missing' | 'unreachable' | 'readOnly' | 'locked' | 'writable';
  readonly reason?: string;
}

/** The report of an SQLite file. Parts that could not be read are absent. */
export interface SqliteReport {
  readonly kind: 'sqlite';
  readonly path: string;
  readonly access: StoreAccess;
  /** The file, its `-wal` and its `-shm`, with their permission bits. */
  readonly files: readonly { readonly path: string; readonly mode: number }[];
  readonly journalMode?: string;
  readonly bytes?: number;
  /** Bytes of free pages, which `VACUUM` returns to the file system. */
  readonly freeBytes?: number;
  readonly schema?: SchemaState;
}

/** The report of a PostgreSQL schema. Parts that could not be read are absent. */
export interface PostgresReport {
  readonly kind: 'postgres';
  /** Host, port, database and schema, without secrets. */
  readonly name: string;
  readonly access: StoreAccess;
  readonly server?: PostgresServer;
  readonly schema?: SchemaState;
  /** Whether a notification arrived within two seconds. */
  readonly listens?: boolean;
  readonly tables?: readonly TableReport[];
}

export interface PostgresServer {
  readonly version: string;
  /** The oldest supported major version. */
  readonly oldestVersion: number;
  readonly database: string;
  readonly role: string;
  /** The setting of new connections of this role to this database. */
  readonly synchronousCommit: string;
  /** In milliseconds; 0 is no limit. */
  readonly idleInTransactionTimeoutMs: number;
  readonly connections: ConnectionUse;
}

/** The connections that count against the tightest limit. */
export interface ConnectionUse {
  readonly used: number;
  readonly limit: number;
  /** `server`: `max_connections` without the reserved ones. */
  readonly limitedBy: 'server' | 'database' | 'role';
}

/** Estimated rows of a table, from the statistics of the server. */
export interface TableReport {
  /** Quoted, with its schema. */
  readonly name: string;
  readonly liveRows: number;
  readonly deadRows: number;
}
