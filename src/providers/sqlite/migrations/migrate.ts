import type Database from 'better-sqlite3';
import {
  checksum,
  missingMigrations,
  openError,
  type AppliedMigration,
  type Migration,
} from '../../shared/migrations.ts';
import { initial } from './0001-initial.ts';
import { jobs } from './0002-jobs.ts';
import { tags } from './0003-tags.ts';
import { workers } from './0004-workers.ts';
import { pause } from './0005-pause.ts';
import { series } from './0006-series.ts';
import { streams } from './0007-streams.ts';
import { starting } from './0008-starting.ts';
import { updates } from './0009-updates.ts';
import { state } from './0010-state.ts';
import { limits } from './0011-limits.ts';
import { startKeys } from './0012-start-keys.ts';
import { beginning } from './0013-beginning.ts';
import { deletedStarts } from './0014-deleted-starts.ts';

/** All migrations in order. */
export const migrations: readonly Migration[] = [
  initial,
  jobs,
  tags,
  workers,
  pause,
  series,
  streams,
  starting,
  updates,
  state,
  limits,
  startKeys,
  beginning,
  deletedStarts,
];

/**
 * Applies missing migrations. Throws for a file that this version must not open.
 * Throws SQLITE_BUSY while another process holds the write lock; the caller retries.
 */
export function migrate(
  db: Database.Database,
  nowMs: number,
  known: readonly Migration[] = migrations,
): void {
  if (missingMigrations(readApplied(db), known).length === 0) return;
  db.exec('BEGIN IMMEDIATE');
  try {
    // Read again under the lock: another process may have applied them.
    for (const migration of missingMigrations(readApplied(db), known)) apply(db, migration, nowMs);
    db.exec('COMMIT');
  } finally {
    if (db.inTransaction) db.exec('ROLLBACK');
  }
}

/** Throws unless the file has all migrations. Writes nothing. */
export function assertMigrated(
  db: Database.Database,
  known: readonly Migration[] = migrations,
): void {
  const missing = missingMigrations(readApplied(db), known).length;
  if (missing === 0) return;
  throw openError(
    'STORE_TOO_OLD',
    `The file is at migration ${known.length - missing}, but this version of Perdure needs ${known.length}. Run \`perdure migrate\`, or open the store with \`migrate: true\`.`,
  );
}

function apply(db: Database.Database, migration: Migration, nowMs: number): void {
  db.exec(`CREATE TABLE IF NOT EXISTS perdure_migrations (
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  checksum TEXT NOT NULL,
  applied_at INTEGER NOT NULL
) STRICT`);
  db.exec(migration.sql);
  db.prepare('INSERT INTO perdure_migrations VALUES (?, ?, ?, ?)').run(
    migration.number,
    migration.name,
    checksum(migration),
    nowMs,
  );
}

/** Reads the recorded migrations. Throws `STORE_DAMAGED` for a file of another application. */
export function readApplied(db: Database.Database): readonly AppliedMigration[] {
  const tables = db
    .prepare<[], string>(`SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name`)
    .pluck()
    .all()
    .filter((name) => !name.startsWith('sqlite_'));
  if (tables.length === 0) return [];
  if (!tables.includes('perdure_migrations')) {
    throw openError(
      'STORE_DAMAGED',
      `The file has tables (${tables.slice(0, 3).join(', ')}) but no record of Perdure's migrations. Use a separate file for Perdure, or restore this one from a backup.`,
    );
  }
  return db
    .prepare<[], AppliedMigration>(
      'SELECT number, name, checksum FROM perdure_migrations ORDER BY number',
    )
    .all();
}
