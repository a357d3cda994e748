import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import Database from 'better-sqlite3';
import { toSchemaState } from '../shared/migrations.ts';
import type { SqliteReport, StoreAccess } from '../shared/store-report.ts';
import { whenNotBusy } from './driver/connection.ts';
import { assertWhole } from './driver/integrity-check.ts';
import { isBusy } from './driver/sqlite-errors.ts';
import { migrations, readApplied } from './migrations/migrate.ts';
import { platform } from '../../model/platform.ts';

const blockingWaitMs = 5;

/**
 * Reports on a file without creating, migrating or configuring it. Waits up to `busyTimeoutMs` for locks. Reads all pages to
 * find damage, unless `brief`.
 */
export async function reportOnSqlite({
  path,
  busyTimeoutMs = 2_000,
  brief = false,
}: {
  readonly path: string;
  readonly busyTimeoutMs?: number;
  readonly brief?: boolean;
}): Promise<SqliteReport> {
  const file = resolve(path);
  const report = { kind: 'sqlite', path: file } as const;
  let files: SqliteReport['files'];
  try {
    files = ['', '-wal', '-shm'].flatMap((suffix) => modeOf(file + suffix) ?? []);
  } catch (error) {
    // No access to the directory, or a loop of links.
    return { ...report, files: [], access: unreachable(error) };
  }
  const [main] = files;
  if (main?.path !== file)
    return {
      ...report,
      files: [],
      access: { kind: 'missing' },
      schema: toSchemaState(() => [], migrations),
    };
  let db: Database.Database;
  try {
    db = new Database(file, { fileMustExist: true, timeout: blockingWaitMs });
  } catch (error) {
    // The mode of a directory is no finding: `chmod 600` would lock its owner out.
    const isDirectory = statSync(file, { throwIfNoEntry: false })?.isDirectory() === true;
    return { ...report, files: isDirectory ? [] : files, access: unreachable(error) };
  }
  const deadline = platform.monotonic() + busyTimeoutMs;
  try {
    const facts = await whenNotBusy(deadline, () => readFacts(db));
    if (!brief) await whenNotBusy(deadline, () => assertWhole(db));
    return { ...report, files, ...facts, access: await readAccess(db, deadline) };
  } catch (error) {
    return { ...report, files, access: toAccess(error) };
  } finally {
    db.close();
  }
}

function modeOf(path: string): { readonly path: string; readonly mode: number } | undefined {
  const stats = statSync(path, { throwIfNoEntry: false });
  return stats === undefined ? undefined : { path, mode: stats.mode & 0o777 };
}

function readFacts(db: Database.Database) {
  const pageBytes = Number(db.pragma('page_size', { simple: true }));
  return {
    journalMode: String(db.pragma('journal_mode', { simple: true })),
    bytes: Number(db.pragma('page_count', { simple: true })) * pageBytes,
    freeBytes: Number(db.pragma('freelist_count', { simple: true })) * pageBytes,
    schema: toSchemaState(() => readApplied(db), migrations),
  };
}

async function readAccess(db: Database.Database, deadline: number): Promise<StoreAccess> {
  try {
    await whenNotBusy(deadline, () => db.exec('BEGIN IMMEDIATE'));
    try {
      // SQLite opens a file without write permission for reading, and BEGIN IMMEDIATE begins a read. Only a write fails.
      db.pragma(`user_version = ${Number(db.pragma('user_version', { simple: true }))}`);
    } finally {
      if (db.inTransaction) db.exec('ROLLBACK');
    }
    return { kind: 'writable' };
  } catch (error) {
    return toAccess(error);
  }
}

function toAccess(error: unknown): StoreAccess {
  if (isBusy(error)) return { kind: 'locked', reason: messageOf(error) };
  // Without write access to the folder, even a read of a write-ahead log fails like this.
  const isReadOnly =
    error instanceof Database.SqliteError && error.code.startsWith('SQLITE_READONLY');
  return isReadOnly ? { kind: 'readOnly', reason: messageOf(error) } : unreachable(error);
}

function unreachable(error: unknown): StoreAccess {
  return { kind: 'unreachable', reason: messageOf(error) };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
