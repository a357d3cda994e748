import { basename, resolve } from 'node:path';
import { systemClock, type Clock } from '../../model/clock.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import type { Provider } from '../contract/provider.ts';
import { findEntryModule } from '../shared/entry-module.ts';
import { openConnection } from './driver/connection.ts';
import { assertMigrated, migrate } from './migrations/migrate.ts';
import { createProvider } from './create-provider.ts';

/** Options of `openSqlite`. */
export interface SqliteOptions {
  /** A file, created if it does not exist, or `':memory:'`. */
  readonly path: string;
  /** `full` (default): commits survive a power loss. `normal`: the most recent commits can be lost; the file stays consistent. */
  readonly synchronous?: 'full' | 'normal';
  /** The clock for visibility and expiry. Default: the system clock. */
  readonly clock?: Clock;
  /** Polling interval for commits of other processes, in milliseconds. Default: 5. */
  readonly pollMs?: number;
  /** How long an operation waits for locks of other processes, in milliseconds. Default: 30,000. */
  readonly busyTimeoutMs?: number;
  /**
   * How long a closure of `ctx.transaction` may hold the write lock, in milliseconds. All other writes wait for it, so keep
   * it well below the leases of the workers. Default: 5,000.
   */
  readonly transactionTimeoutMs?: number;
  /** Applies missing migrations. Default: true. If false, a file that does not exist or lacks one throws. */
  readonly migrate?: boolean;
}

/** Opens a SQLite store. Several processes can open the same file. */
export async function openSqlite(options: SqliteOptions): Promise<Provider> {
  const { path, synchronous = 'full', clock = systemClock } = options;
  const { pollMs = 5, busyTimeoutMs = 30_000, migrate: mayMigrate = true } = options;
  const { transactionTimeoutMs = 5_000 } = options;
  const isPath = typeof path === 'string' && path !== '' && !path.includes('\0');
  check(isPath, { path }, `a file path or ':memory:'`);
  check(synchronous === 'full' || synchronous === 'normal', { synchronous }, `'full' or 'normal'`);
  check(pollMs >= 1, { pollMs }, '1 or more');
  check(busyTimeoutMs >= 0, { busyTimeoutMs }, '0 or more');
  check(transactionTimeoutMs >= 1, { transactionTimeoutMs }, '1 or more');
  check(typeof mayMigrate === 'boolean', { migrate: mayMigrate }, 'true or false');
  const db = await openConnection({
    path,
    synchronous,
    clock,
    busyTimeoutMs,
    migrate: mayMigrate ? migrate : (opened) => assertMigrated(opened),
    mayCreate: mayMigrate,
  });
  return createProvider({
    db,
    clock,
    pollMs,
    busyTimeoutMs,
    transactionTimeoutMs,
    name: path === ':memory:' ? 'sqlite in memory' : `sqlite ${basename(path)}`,
    ...(path !== ':memory:' && clock === systemClock && reopeningOf(options)),
  });
}

function reopeningOf({
  path,
  synchronous,
  busyTimeoutMs,
}: SqliteOptions): Pick<Provider, 'reopening'> {
  const options = { path: resolve(path), synchronous, busyTimeoutMs };
  const module = findEntryModule('sqlite');
  return module === undefined ? {} : { reopening: { module, exportName: 'openSqlite', options } };
}

function check(isValid: boolean, option: Readonly<Record<string, unknown>>, wanted: string): void {
  if (isValid) return;
  const [[name, value] = ['', undefined]] = Object.entries(option);
  const message = `Invalid \`${name}\` ${JSON.stringify(value) ?? 'undefined'} for openSqlite(): must be ${wanted}.`;
  throw new PerdureError('INVALID_OPTION', message);
}
