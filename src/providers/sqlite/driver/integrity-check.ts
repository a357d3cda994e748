import { readFileSync, realpathSync, statSync } from 'node:fs';
import type Database from 'better-sqlite3';
import { ProviderError } from '../../../model/failures/errors.ts';

// quick_check reads every page: 241 ms per 100 MB. For larger files only the header, the schema and used pages are checked.
const maxCheckedBytes = 256 * 1024 * 1024;

// `PRAGMA user_version` of a file whose check is pending. It is part of the first page, so it is as durable as any row.
const checkPending = 1;

/**
 * Whether the last process with this file ended without closing it: its write-ahead log has data, and no process has the file
 * open. SQLite deletes the log when the last connection closes. Call this before the file is opened.
 */
export function endedUncleanly(file: string): boolean {
  const path = realPath(file);
  const hasLog = ['-wal', '-journal'].some((suffix) => sizeOf(path + suffix) > 0);
  return hasLog && !isLocked(`${path}-shm`);
}

/** SQLite names its other files after the target of a symbolic link. */
function realPath(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return file;
  }
}

function sizeOf(path: string): number {
  try {
    return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  } catch {
    return 0;
  }
}

/**
 * Whether a process holds a lock on the file, as each connection does on `-shm`. Returns false where the system does not list
 * locks: the file is then checked although another process has it open.
 */
function isLocked(path: string): boolean {
  try {
    const { dev, ino } = statSync(path);
    const device = [(dev >> 8) & 0xfff, (dev & 0xff) | ((dev >> 12) & 0xfff00)];
    const id = [...device.map((part) => part.toString(16).padStart(2, '0')), ino].join(':');
    return readFileSync('/proc/locks', 'utf8').includes(` ${id} `);
  } catch {
    return false;
  }
}

/**
 * Checks the pages of the file after an unclean end, and throws `STORE_DAMAGED`. The file is marked first: until a check
 * passes, every other opener checks it too, also after the log was deleted. A clean file costs one read.
 */
export function checkAfterUncleanEnd(db: Database.Database, isUnclean: boolean): void {
  if (isUnclean) setPending(db, checkPending);
  if (db.pragma('user_version', { simple: true }) !== checkPending) return;
  if (bytesOf(db) <= maxCheckedBytes) assertWhole(db);
  setPending(db, 0);
}

/** Throws `STORE_DAMAGED` if a page of the file is damaged. Reads all pages. */
export function assertWhole(db: Database.Database): void {
  const result = db.pragma('quick_check(1)', { simple: true });
  if (result === 'ok') return;
  throw new ProviderError({
    operation: 'open',
    message: `open: the database file is damaged (${String(result)}). Restore it from a backup.`,
    retryable: false,
    code: 'STORE_DAMAGED',
  });
}

function bytesOf(db: Database.Database): number {
  const [pages, bytes] = ['page_count', 'page_size'].map((name) =>
    db.pragma(name, { simple: true }),
  );
  return Number(pages) * Number(bytes);
}

/** Does not write to a file of another program. */
function setPending(db: Database.Database, version: number): void {
  db.exec('BEGIN IMMEDIATE');
  try {
    const isOurs = db
      .prepare(`SELECT 1 FROM sqlite_schema WHERE name = 'perdure_migrations'`)
      .pluck()
      .get();
    if (isOurs === 1) db.pragma(`user_version = ${version}`);
    db.exec('COMMIT');
  } finally {
    if (db.inTransaction) db.exec('ROLLBACK');
  }
}
