import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import type { Stores } from './stores.ts';

/** Files in a temporary directory. */
export function createSqliteStores(): Stores {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-bench-'));
  const db = new Database(':memory:');
  const sqlite = db.prepare<[], string>('SELECT sqlite_version()').pluck().get() ?? '';
  db.close();
  return {
    versions: { sqlite },
    make(name, template) {
      const store = join(folder, `${name}.db`);
      if (template !== undefined) copyFileSync(template, store);
      return Promise.resolve(store);
    },
    remove(store) {
      for (const suffix of ['', '-wal', '-shm']) rmSync(store + suffix, { force: true });
      return Promise.resolve();
    },
    close() {
      rmSync(folder, { recursive: true, force: true });
      return Promise.resolve();
    },
  };
}
