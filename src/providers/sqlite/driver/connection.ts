import { chmodSync, closeSync, lstatSync, openSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import Database from 'better-sqlite3';
import type { Clock } from '../../../model/clock.ts';
import { ProviderError } from '../../../model/failures/errors.ts';
import { fileIdentity, replacedError } from './database-files.ts';
import { checkAfterUncleanEnd, endedUncleanly } from './integrity-check.ts';
import { isBusy, toProviderError } from './sqlite-errors.ts';
import { delay, platform } from '../../../model/platform.ts';
import { checkpointPages } from './wal-growth.ts';

export interface ConnectionOptions {
  /** Applies missing migrations. Retried while another process holds the lock. */
  readonly migrate: (db: Database.Database, nowMs: number) => void;
  /** A file, or `':memory:'`. */
  readonly path: string;
  readonly synchronous: 'full' | 'normal';
  readonly clock: Clock;
  readonly busyTimeoutMs: number;
  /** Whether to create a file that does not exist. Default: true. */
  readonly mayCreate?: boolean;
}

// Fixes the WAL-reset corruption.
const oldestSqlite = [3, 51, 3] as const;

// How long a statement may block the event loop for another process's lock. After that the wait is asynchronous.
const blockingWaitMs = 5;

/** Opens a database file, checks its schema and after an unclean end its pages, and applies missing migrations. */
export async function openConnection(options: ConnectionOptions): Promise<Database.Database> {
  const { path, clock } = options;
  const inMemory = path === ':memory:';
  // Absolute, so that SQLite does not parse the path as a URI.
  const file = inMemory ? path : resolve(path);
  if (!inMemory && options.mayCreate === false) assertExists(file);
  const isNew = inMemory || createPrivately(file);
  const isUnclean = !isNew && endedUncleanly(file);
  const db = openFile(file);
  const identity = inMemory ? undefined : fileIdentity(file);
  try {
    const deadline = platform.monotonic() + options.busyTimeoutMs;
    // Even a statement without a table reads the schema, which another process may be creating.
    await whenNotBusy(deadline, () => assertVersion(db));
    const applyMigrations = () => options.migrate(db, Math.floor(clock.now()));
    // Before `configure`, which would change the journal mode of a file of another program.
    if (options.mayCreate === false) await whenNotBusy(deadline, applyMigrations);
    await whenNotBusy(deadline, () => configure(db, options));
    if (!isNew) await whenNotBusy(deadline, () => checkAfterUncleanEnd(db, isUnclean));
    await whenNotBusy(deadline, applyMigrations);
    if (!inMemory && fileIdentity(file) !== identity) throw replacedError('open', file);
    return db;
  } catch (error) {
    db.close();
    throw toProviderError('open', error);
  }
}

function assertExists(file: string): void {
  try {
    statSync(file);
  } catch (cause) {
    throw cannotOpen(
      (cause as NodeJS.ErrnoException).code === 'ENOENT'
        ? `the database file ${JSON.stringify(file)} does not exist. Check the path, or create the store with \`perdure migrate\`.`
        : `the database file ${JSON.stringify(file)} cannot be read (${String(cause)}). Check the path and its permissions.`,
      cause,
    );
  }
}

/** Creates the file with mode 0600, which SQLite copies to -wal and -shm. Returns whether it is new. */
function createPrivately(file: string): boolean {
  try {
    closeSync(openSync(file, 'ax', 0o600));
    return true;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'EEXIST') return makePrivate(file);
    throw cannotOpen(
      `the database file ${JSON.stringify(file)} cannot be created (${String(cause)}). Check that its directory exists and is writable.`,
      cause,
    );
  }
}

/** Restricts an empty file to its owner (mode 0600). Returns whether the file is empty. */
function makePrivate(file: string): boolean {
  let isEmpty: boolean;
  try {
    const stats = statSync(file);
    isEmpty = stats.isFile() && stats.size === 0;
  } catch (cause) {
    throw cannotOpen(
      isSymlink(file)
        ? `${JSON.stringify(file)} is a symbolic link to a file that does not exist. Create the target, or open another path.`
        : `the database file ${JSON.stringify(file)} cannot be read (${String(cause)}). Check its permissions.`,
      cause,
    );
  }
  if (!isEmpty) return false;
  try {
    // By path: closing a descriptor of a database file drops all POSIX locks of this process on it.
    chmodSync(file, 0o600);
  } catch (cause) {
    throw cannotOpen(
      `cannot set mode 0600 on the empty file ${JSON.stringify(file)} (${String(cause)}). Delete it, or change its owner to the user of this process.`,
      cause,
    );
  }
  return true;
}

function isSymlink(file: string): boolean {
  try {
    return lstatSync(file).isSymbolicLink();
  } catch {
    return false;
  }
}

function cannotOpen(problem: string, cause: unknown): ProviderError {
  return new ProviderError({
    operation: 'open',
    message: `open: ${problem}`,
    retryable: false,
    cause,
  });
}

function openFile(file: string): Database.Database {
  try {
    return new Database(file, { timeout: blockingWaitMs });
  } catch (error) {
    throw toProviderError('open', error);
  }
}

function configure(db: Database.Database, { synchronous }: ConnectionOptions): void {
  const mode = db.pragma('journal_mode = WAL', { simple: true });
  if (!db.memory && mode !== 'wal') {
    throw new ProviderError({
      operation: 'open',
      message: `open: cannot switch the file from journal mode ${String(mode)} to WAL. Use a local file system.`,
      retryable: false,
    });
  }
  db.pragma(`synchronous = ${synchronous === 'normal' ? 'NORMAL' : 'FULL'}`);
  db.pragma('cache_size = -32000');
  db.pragma('temp_store = MEMORY');
  // A checkpoint costs two fsyncs. Every 16 MiB, their share is negligible.
  db.pragma(`wal_autocheckpoint = ${checkpointPages}`);
  db.pragma('journal_size_limit = 67108864');
}

function assertVersion(db: Database.Database): void {
  const version = db.prepare<[], string>('SELECT sqlite_version()').pluck().get() ?? '';
  const parts = version.split('.').map(Number);
  const difference = oldestSqlite.map((wanted, i) => (parts[i] ?? 0) - wanted).find((d) => d !== 0);
  if (difference !== undefined && difference < 0) {
    throw new ProviderError({
      operation: 'open',
      message: `open: SQLite ${version} is not supported. Version ${oldestSqlite.join('.')} or newer is required: upgrade better-sqlite3.`,
      retryable: false,
    });
  }
}

/** Runs `work`, and retries while the database is busy. Throws the last error after the deadline. */
export async function whenNotBusy<T>(deadline: number, work: () => T): Promise<T> {
  for (;;) {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error) || platform.monotonic() > deadline) throw error;
      await delay(platform.random() * 20);
    }
  }
}
