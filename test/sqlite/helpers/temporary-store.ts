import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import { openSqlite, type SqliteOptions } from '../../../src/providers/sqlite/provider.ts';

/** Creates a directory for the database file of one test. Everything is closed and deleted when the test ends. */
export function temporaryStore(): {
  readonly path: string;
  readonly open: (options?: Partial<SqliteOptions>) => Promise<Provider>;
} {
  const directory = mkdtempSync(join(tmpdir(), 'perdure-sqlite-'));
  const path = join(directory, 'store.db');
  const opened: Provider[] = [];
  onTestFinished(async () => {
    for (const provider of opened) await provider.close();
    rmSync(directory, { recursive: true, force: true });
  });
  return {
    path,
    open: async (options = {}) => {
      const provider = await openSqlite({ path, ...options });
      opened.push(provider);
      return provider;
    },
  };
}
