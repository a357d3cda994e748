import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../model/clock.ts';
import { openConnection } from './connection.ts';
import { migrate, migrations } from '../migrations/migrate.ts';

let directory: string;
let path: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'perdure-connection-'));
  path = join(directory, 'store.db');
});

afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

function open(parts: Partial<Parameters<typeof openConnection>[0]> = {}) {
  return openConnection({
    migrate,
    path,
    synchronous: 'full',
    clock: systemClock,
    busyTimeoutMs: 200,
    ...parts,
  });
}

describe('openConnection', () => {
  it('creates the file and its -wal and -shm with mode 0600', async () => {
    const db = await open();
    db.exec(`INSERT INTO definitions (kind, name, version) VALUES ('activity', 'a', '')`);
    const modes = ['', '-wal', '-shm'].map((suffix) => statSync(path + suffix).mode & 0o777);
    expect(modes).toEqual([0o600, 0o600, 0o600]);
    db.close();
  });

  it('with mayCreate: false, rejects a missing file and creates none', async () => {
    await expect(open({ mayCreate: false })).rejects.toMatchObject({ code: 'PROVIDER' });
    expect(existsSync(path)).toBe(false);
  });

  it('with mayCreate: false, keeps the journal mode of a file of another program', async () => {
    const other = new Database(path);
    other.exec('CREATE TABLE notes (note TEXT)');
    await expect(open({ mayCreate: false })).rejects.toMatchObject({ code: 'STORE_DAMAGED' });
    expect(other.pragma('journal_mode', { simple: true })).toBe('delete');
    other.close();
  });

  it('restricts an existing empty file to its owner before the first write', async () => {
    writeFileSync(path, '', { mode: 0o644 });
    chmodSync(path, 0o666);
    const db = await open();
    db.exec(`INSERT INTO definitions (kind, name, version) VALUES ('activity', 'a', '')`);
    const modes = ['', '-wal', '-shm'].map((suffix) => statSync(path + suffix).mode & 0o777);
    expect(modes).toEqual([0o600, 0o600, 0o600]);
    db.close();
  });

  it('keeps the mode of a file with data', async () => {
    (await open()).close();
    chmodSync(path, 0o640);
    (await open()).close();
    expect(statSync(path).mode & 0o777).toBe(0o640);
  });

  it('opens a symbolic link to a file, and throws PROVIDER for a dangling one', async () => {
    const target = join(directory, 'target.db');
    symlinkSync(target, path);
    await expect(open()).rejects.toMatchObject({
      name: 'ProviderError',
      code: 'PROVIDER',
      operation: 'open',
      retryable: false,
      message: expect.stringContaining('symbolic link') as string,
    });
    (await open({ path: target })).close();
    (await open()).close();
    rmSync(target);
    symlinkSync(path, target);
    await expect(open()).rejects.toMatchObject({ code: 'PROVIDER', operation: 'open' });
  });

  it('uses WAL, and synchronous FULL by default', async () => {
    const full = await open();
    expect(full.pragma('journal_mode', { simple: true })).toBe('wal');
    expect(full.pragma('synchronous', { simple: true })).toBe(2);
    full.close();
    const normal = await open({ synchronous: 'normal' });
    expect(normal.pragma('synchronous', { simple: true })).toBe(1);
    normal.close();
  });

  it('reopens a file with its data', async () => {
    const first = await open();
    first.exec(`INSERT INTO definitions (kind, name, version) VALUES ('activity', 'a', '')`);
    first.close();
    const second = await open();
    expect(second.prepare('SELECT name FROM definitions').pluck().all()).toEqual(['a']);
    second.close();
  });

  it('rejects a file that is not a database without changing it', async () => {
    const text = 'Dear diary, '.repeat(500);
    writeFileSync(path, text);
    await expect(open()).rejects.toMatchObject({
      code: 'STORE_DAMAGED',
      operation: 'open',
      retryable: false,
    });
    expect(readFileSync(path, 'utf8')).toBe(text);
  });

  it('rejects a truncated file', async () => {
    (await open()).close();
    writeFileSync(path, readFileSync(path).subarray(0, 3 * 4_096));
    await expect(open()).rejects.toMatchObject({ code: 'STORE_DAMAGED' });
  });

  it('rejects the file of a newer version', async () => {
    const db = new Database(path);
    migrate(db, 0, [...migrations, { number: migrations.length + 1, name: 'next', sql: '' }]);
    db.close();
    await expect(open()).rejects.toMatchObject({ code: 'STORE_TOO_NEW', retryable: false });
  });

  it('rejects a path whose directory is missing, or that is a directory', async () => {
    await expect(open({ path: join(directory, 'no', 'such.db') })).rejects.toMatchObject({
      code: 'PROVIDER',
      message: expect.stringContaining('directory exists'),
    });
    mkdirSync(path);
    await expect(open()).rejects.toMatchObject({ code: 'PROVIDER', operation: 'open' });
  });

  it('treats a path that looks like a URI as a file name', async () => {
    const odd = join(directory, 'file:x?mode=memory');
    const db = await open({ path: odd });
    db.close();
    expect(statSync(odd).size).toBeGreaterThan(0);
  });

  it('waits for a connection that creates the schema, and rejects after busyTimeoutMs', async () => {
    const other = new Database(path);
    other.pragma('journal_mode = WAL');
    other.exec('BEGIN IMMEDIATE');
    await expect(open()).rejects.toMatchObject({ code: 'PROVIDER', retryable: true });
    const patient = open({ busyTimeoutMs: 10_000 });
    other.exec('COMMIT');
    other.close();
    (await patient).close();
  });
});
