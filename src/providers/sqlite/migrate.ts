import { createHash } from 'node:crypto';
import type Database from 'better-sqlite3';
import { ProviderError } from '../../model/errors.ts';
import { initial } from './migrations/0001-initial.ts';
import { jobs } from './migrations/0002-jobs.ts';

/** One step of the schema. Once released it never changes: its checksum is kept in every file. */
export interface Migration {
  readonly number: number;
  readonly name: string;
  readonly sql: string;
}

/** Every migration, in order: 1, 2, 3, … */
export const migrations: readonly Migration[] = [initial, jobs];

/** The checksum under which a migration is recorded. */
export function checksum(migration: Migration): string {
  return createHash('sha256').update(migration.sql).digest('hex');
}

interface Applied {
  readonly number: number;
  readonly name: string;
  readonly checksum: string;
}

/**
 * Brings the schema up to date, or refuses a file that this version must not touch.
 * Throws SQLITE_BUSY when another process holds the write lock; the caller tries again.
 */
export function migrate(
  db: Database.Database,
  nowMs: number,
  known: readonly Migration[] = migrations,
): void {
  if (missing(readApplied(db), known).length === 0) return;
  db.exec('BEGIN IMMEDIATE');
  try {
    // Another process may have been faster: what counts is what stands under the lock.
    for (const migration of missing(readApplied(db), known)) apply(db, migration, nowMs);
    db.exec('COMMIT');
  } finally {
    if (db.inTransaction) db.exec('ROLLBACK');
  }
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

/** The migrations to apply; throws when what was applied is not a prefix of what is known. */
function missing(applied: readonly Applied[], known: readonly Migration[]): readonly Migration[] {
  const newest = applied.at(-1)?.number ?? 0;
  if (newest > known.length) {
    throw refusal(
      'STORE_TOO_NEW',
      `The file has schema ${newest}, this version of Perdure knows ${known.length}. Upgrade Perdure to open it.`,
    );
  }
  for (const [index, row] of applied.entries()) {
    const migration = known[index];
    if (migration?.number !== row.number || checksum(migration) !== row.checksum) {
      throw refusal(
        'STORE_DAMAGED',
        `Migration ${row.number} (${row.name}) was applied to the file in another form than this version of Perdure has. Open it with the version that wrote it.`,
      );
    }
  }
  return known.slice(applied.length);
}

function readApplied(db: Database.Database): readonly Applied[] {
  const tables = db
    .prepare<[], string>(`SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name`)
    .pluck()
    .all()
    .filter((name) => !name.startsWith('sqlite_'));
  if (tables.length === 0) return [];
  if (!tables.includes('perdure_migrations')) {
    throw refusal(
      'STORE_DAMAGED',
      `The file holds tables (${tables.slice(0, 3).join(', ')}) but no record of Perdure's migrations. Give Perdure a file of its own, or restore this one.`,
    );
  }
  return db
    .prepare<[], Applied>('SELECT number, name, checksum FROM perdure_migrations ORDER BY number')
    .all();
}

function refusal(code: 'STORE_TOO_NEW' | 'STORE_DAMAGED', message: string): ProviderError {
  return new ProviderError({ operation: 'open', message, retryable: false, code });
}
