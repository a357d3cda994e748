import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { checksum, type Migration } from '../../shared/migrations.ts';
import { migrate, migrations } from './migrate.ts';

const addNotes: Migration = {
  number: 3,
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
  it('numbers its migrations 1, 2, 3, … without a gap', () => {
    expect(migrations.map(({ number }) => number)).toEqual(migrations.map((_, index) => index + 1));
  });

  it('applies every migration to a fresh database, and records when', () => {
    migrate(db, 7);
    expect(applied()).toEqual([
      [1, 'initial', 7],
      [2, 'jobs', 7],
    ]);
    expect(tables()).toContain('instances');
  });

  it('changes nothing the second time', () => {
    migrate(db, 7);
    const before = db.prepare('SELECT * FROM perdure_migrations').all();
    migrate(db, 8);
    expect(db.prepare('SELECT * FROM perdure_migrations').all()).toEqual(before);
  });

  it('applies only what is missing', () => {
    migrate(db, 7);
    migrate(db, 8, [...migrations, addNotes]);
    expect(applied()).toEqual([
      [1, 'initial', 7],
      [2, 'jobs', 7],
      [3, 'notes', 8],
    ]);
    expect(tables()).toContain('notes');
  });

  it('refuses a database in which a newer version has applied more', () => {
    migrate(db, 7, [...migrations, addNotes]);
    expect(() => migrate(db, 8)).toThrow(
      expect.objectContaining({
        code: 'STORE_TOO_NEW',
        message: expect.stringContaining('Upgrade Perdure'),
      }),
    );
  });

  it('refuses a database with another form of a migration as incompatible, not as damaged', () => {
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

  it('detects a record with a hole in it', () => {
    migrate(db, 7, [...migrations, addNotes]);
    db.exec('DELETE FROM perdure_migrations WHERE number = 1');
    expect(() => migrate(db, 8, [...migrations, addNotes])).toThrow(
      expect.objectContaining({ code: 'STORE_DAMAGED' }),
    );
  });

  it('keeps nothing of a migration that fails half-way, and succeeds when it is repaired', () => {
    const broken = { ...addNotes, sql: `${addNotes.sql} CREATE TABLE notes (note TEXT);` };
    expect(() => migrate(db, 7, [...migrations, broken])).toThrow('already exists');
    expect(tables()).toEqual([]);
    migrate(db, 8, [...migrations, addNotes]);
    expect(applied()).toHaveLength(migrations.length + 1);
  });

  it('refuses a database that holds tables of somebody else', () => {
    db.exec('CREATE TABLE customers (id INTEGER)');
    expect(() => migrate(db, 7)).toThrow(
      expect.objectContaining({
        code: 'STORE_DAMAGED',
        message: expect.stringContaining('customers'),
      }),
    );
    expect(tables()).toEqual(['customers']);
  });

  it('keeps the checksum of every released migration', () => {
    // A released migration never changes. Add a new one instead of editing this list.
    expect(migrations.map((each) => [each.name, checksum(each).slice(0, 16)])).toEqual([
      ['initial', '4349cd78543dc230'],
      ['jobs', '0a18cd16c49b0939'],
    ]);
  });
});
