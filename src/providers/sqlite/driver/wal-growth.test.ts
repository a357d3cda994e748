import { copyFileSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, it, onTestFinished } from 'vitest';
import { WalGrowth } from './wal-growth.ts';

function openDatabase(synchronous: 'FULL' | 'NORMAL') {
  const directory = mkdtempSync(join(tmpdir(), 'perdure-wal-'));
  const path = join(directory, 'store.db');
  const db = new Database(path, { timeout: 5 });
  db.pragma('journal_mode = WAL');
  db.pragma(`synchronous = ${synchronous}`);
  db.pragma('wal_autocheckpoint = 4000');
  db.exec('CREATE TABLE numbers (value INTEGER)');
  const growth = new WalGrowth(db);
  const insert = db.prepare('INSERT INTO numbers VALUES (?)');
  const commit = (count: number): void => {
    for (let value = 0; value < count; value++) {
      insert.run(value);
      growth.committed();
    }
  };
  onTestFinished(() => {
    growth.close();
    db.close();
    rmSync(directory, { recursive: true, force: true });
  });
  return { directory, path, growth, commit, walBytes: () => statSync(`${path}-wal`).size };
}

it('fills the log of a busy process up to its size at a checkpoint', () => {
  const { commit, walBytes } = openDatabase('FULL');
  commit(63);
  expect(walBytes()).toBeLessThan(1_000_000);
  commit(20);
  const bytes = walBytes();
  expect(bytes).toBeGreaterThan(16_000_000);
  commit(20);
  expect(walBytes()).toBe(bytes);
});

it('a copy of a log with zeros at its end recovers all commits', () => {
  const { directory, path, commit } = openDatabase('FULL');
  commit(70);
  const copy = join(directory, 'copy.db');
  copyFileSync(path, copy);
  copyFileSync(`${path}-wal`, `${copy}-wal`);
  const db = new Database(copy);
  expect(db.prepare('SELECT count(*) FROM numbers').pluck().get()).toBe(70);
  expect(db.pragma('integrity_check', { simple: true })).toBe('ok');
  db.close();
});

it.skipIf(process.platform === 'win32')(
  'writes nothing to the log of another database that took the path',
  () => {
    const { path, commit, walBytes } = openDatabase('FULL');
    commit(63);
    for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix);
    const other = new Database(path);
    other.pragma('journal_mode = WAL');
    other.exec('CREATE TABLE others (value INTEGER)');
    const before = walBytes();
    commit(20);
    expect(walBytes()).toBe(before);
    other.close();
  },
);

it('writes nothing while another connection holds the write lock, and nothing without a flush per commit', () => {
  const { path, growth, commit, walBytes } = openDatabase('FULL');
  commit(63);
  const other = new Database(path, { timeout: 0 });
  other.exec('BEGIN IMMEDIATE');
  const before = walBytes();
  growth.committed();
  growth.committed();
  expect(walBytes()).toBe(before);
  other.exec('ROLLBACK');
  other.close();
  growth.committed();
  expect(walBytes()).toBe(before + 1024 * 1024);
  const relaxed = openDatabase('NORMAL');
  relaxed.commit(100);
  expect(relaxed.walBytes()).toBeLessThan(1_000_000);
});
