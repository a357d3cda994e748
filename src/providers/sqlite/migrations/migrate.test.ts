import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { checksum, type Migration } from '../../shared/migrations.ts';
import { assertMigrated, migrate, migrations } from './migrate.ts';

const addNotes: Migration = {
  number: migrations.length + 1,
  name: 'notes',
  sql: 'CREATE TABLE notes (note TEXT) STRICT;',
};

let db: Database.Database;

beforeEach(() => {
  db = new Database(':memory:');
});

afterEach(() => {
  db.close();
});

function applied(): unknown[] {
  return db.prepare('SELECT number, name, applied_at FROM perdure_migrations').raw().all();
}

function tables(): unknown[] {
  return db.prepare(`SELECT name FROM sqlite_schema WHERE type = 'table'`).pluck().all();
}

describe('migrate', () => {
  it('has migrations with the numbers 1, 2, 3, …', () => {
    expect(migrations.map(({ number }) => number)).toEqual(migrations.map((_, index) => index + 1));
  });

  it('applies all migrations to an empty database and records the time', () => {
    migrate(db, 7);
    expect(applied()).toEqual(migrations.map(({ number, name }) => [number, name, 7]));
    expect(tables()).toContain('instances');
  });

  it('changes nothing when called again', () => {
    migrate(db, 7);
    const before = db.prepare('SELECT * FROM perdure_migrations').all();
    migrate(db, 8);
    expect(db.prepare('SELECT * FROM perdure_migrations').all()).toEqual(before);
  });

  it('applies only missing migrations', () => {
    migrate(db, 7);
    migrate(db, 8, [...migrations, addNotes]);
    expect(applied()).toEqual([
      ...migrations.map(({ number, name }) => [number, name, 7]),
      [addNotes.number, 'notes', 8],
    ]);
    expect(tables()).toContain('notes');
  });

  it('throws STORE_TOO_NEW for a database with more migrations', () => {
    migrate(db, 7, [...migrations, addNotes]);
    expect(() => migrate(db, 8)).toThrow(
      expect.objectContaining({
        code: 'STORE_TOO_NEW',
        message: expect.stringContaining('Upgrade Perdure'),
      }),
    );
  });

  it('throws STORE_INCOMPATIBLE for a migration with another checksum', () => {
    migrate(db, 7);
    const edited = migrations.map((each) => ({ ...each, sql: `${each.sql}-- edited` }));
    expect(() => migrate(db, 8, edited)).toThrow(
      expect.objectContaining({
        code: 'STORE_INCOMPATIBLE',
        retryable: false,
        message: expect.stringContaining('Migration 1 (initial)'),
      }),
    );
  });

  it('throws STORE_DAMAGED for a gap in the recorded migrations', () => {
    migrate(db, 7, [...migrations, addNotes]);
    db.exec('DELETE FROM perdure_migrations WHERE number = 1');
    expect(() => migrate(db, 8, [...migrations, addNotes])).toThrow(
      expect.objectContaining({ code: 'STORE_DAMAGED' }),
    );
  });

  it('rolls back a failed migration, and applies it after a fix', () => {
    const broken = { ...addNotes, sql: `${addNotes.sql} CREATE TABLE notes (note TEXT);` };
    expect(() => migrate(db, 7, [...migrations, broken])).toThrow('already exists');
    expect(tables()).toEqual([]);
    migrate(db, 8, [...migrations, addNotes]);
    expect(applied()).toHaveLength(migrations.length + 1);
  });

  it('throws STORE_DAMAGED for a database with foreign tables', () => {
    db.exec('CREATE TABLE customers (id INTEGER)');
    expect(() => migrate(db, 7)).toThrow(
      expect.objectContaining({
        code: 'STORE_DAMAGED',
        message: expect.stringContaining('customers'),
      }),
    );
    expect(tables()).toEqual(['customers']);
  });

  it('released migrations keep their checksums', () => {
    // A released migration never changes. Add a new one instead of editing this list.
    expect(migrations.map((each) => [each.name, checksum(each).slice(0, 16)])).toEqual([
      ['initial', '660b00d6091b877d'],
      ['jobs', '6b7a17d5163e1a51'],
      ['tags', 'f1e150794a327b37'],
      ['workers', 'ed57eca9d811cf75'],
      ['pause', 'a561c78c22321624'],
      ['series', 'e63285edfca22e8d'],
      ['streams', '2cc50133ab78911e'],
      ['starting', '81b16f58eef579cb'],
      ['updates', '3fe4bc82a236b987'],
      ['state', '2cdbf5e5481cb754'],
      ['limits', '900b086dc5789227'],
      ['start-keys', '3727f02fe01ca8e2'],
      ['beginning', '046020f787aaf3d7'],
      ['deleted-starts', 'f058ae142e853d99'],
    ]);
  });
});

describe('assertMigrated', () => {
  it('accepts a database with all migrations', () => {
    migrate(db, 7);
    expect(() => assertMigrated(db)).not.toThrow();
  });

  it('throws STORE_TOO_OLD for a missing migration and applies none', () => {
    migrate(db, 7, migrations.slice(0, -1));
    const before = applied();
    expect(() => assertMigrated(db)).toThrow(expect.objectContaining({ code: 'STORE_TOO_OLD' }));
    expect(applied()).toEqual(before);
  });

  it('throws STORE_TOO_OLD for an empty database and creates no table', () => {
    expect(() => assertMigrated(db)).toThrow(expect.objectContaining({ code: 'STORE_TOO_OLD' }));
    expect(tables()).toEqual([]);
  });
});
