import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { systemClock } from '../../../model/clock.ts';
import { migrate } from '../migrations/migrate.ts';
import { openConnection } from './connection.ts';
import { endedUncleanly } from './integrity-check.ts';

let directory: string;
let path: string;
const damaged = { code: 'STORE_DAMAGED', retryable: false };

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'perdure-integrity-'));
  path = join(directory, 'store.db');
});

afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

function open(file = path): Promise<Database.Database> {
  return openConnection({
    migrate,
    path: file,
    synchronous: 'full',
    clock: systemClock,
    busyTimeoutMs: 200,
  });
}

/** Creates a file with pages that opening it does not read. */
async function createFile(): Promise<void> {
  const db = await open();
  const insert = db.prepare(
    `INSERT INTO definitions (kind, name, version) VALUES ('activity', ?, '')`,
  );
  db.transaction(() => {
    for (let i = 0; i < 2_000; i++) insert.run(`${i}`.padStart(50));
  })();
  db.close();
}

/** Copies the files of an open store, as a process leaves them that does not close it. */
async function createUncleanCopy(): Promise<string> {
  await createFile();
  const db = await open();
  db.exec(`INSERT INTO definitions (kind, name, version) VALUES ('activity', 'last', '')`);
  const copy = join(directory, 'copy.db');
  for (const suffix of ['', '-wal']) copyFileSync(path + suffix, copy + suffix);
  db.close();
  return copy;
}

function damage(file: string): void {
  const bytes = readFileSync(file);
  bytes.fill(0xff, bytes.length / 2, bytes.length / 2 + 8_192);
  writeFileSync(file, bytes);
}

/** The statements of the connections that a callback opens. */
async function checksOf(file: string): Promise<number> {
  const db = await open(file);
  const { constructor } = db;
  db.close();
  const pragma = vi.spyOn(constructor.prototype as Database.Database, 'pragma');
  try {
    const opened = await open(file);
    opened.close();
    return pragma.mock.calls.filter(([text]) => text.startsWith('quick_check')).length;
  } finally {
    pragma.mockRestore();
  }
}

describe('integrity check', () => {
  it('skips a file that was closed', async () => {
    await createFile();
    expect(endedUncleanly(path)).toBe(false);
    expect(await checksOf(path)).toBe(0);
  });

  it('finds that a file was not closed', async () => {
    expect(endedUncleanly(await createUncleanCopy())).toBe(true);
  });

  it.runIf(process.platform === 'linux')(
    'skips a file that another connection has open',
    async () => {
      await createFile();
      const db = await open();
      db.exec(`INSERT INTO definitions (kind, name, version) VALUES ('activity', 'last', '')`);
      expect(endedUncleanly(path)).toBe(false);
      db.close();
    },
  );

  it('opens a file that was not closed, with its last commit', async () => {
    const copy = await createUncleanCopy();
    const db = await open(copy);
    expect(db.prepare(`SELECT 1 FROM definitions WHERE name = 'last'`).pluck().get()).toBe(1);
    expect(db.pragma('user_version', { simple: true })).toBe(0);
    db.close();
    expect(endedUncleanly(copy)).toBe(false);
  });

  it('rejects a damaged file that was not closed, also after its log was deleted', async () => {
    const copy = await createUncleanCopy();
    damage(copy);
    await expect(open(copy)).rejects.toMatchObject(damaged);
    // The last connection deletes the log when it closes.
    rmSync(`${copy}-wal`, { force: true });
    expect(existsSync(`${copy}-wal`)).toBe(false);
    await expect(open(copy)).rejects.toMatchObject(damaged);
  });

  it('rejects a file with a damaged page that opening it reads', async () => {
    await createFile();
    const bytes = readFileSync(path);
    bytes.fill(0xff, 100, 4_096);
    writeFileSync(path, bytes);
    await expect(open()).rejects.toMatchObject(damaged);
  });
});
