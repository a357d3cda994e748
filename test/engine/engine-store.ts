import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll } from 'vitest';
import type { Clock } from '../../src/model/clock.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import { SchemaPool } from '../postgres/helpers/schema-pool.ts';
import { changeSql } from '../postgres/helpers/server.ts';
import { createEmptyStore } from '../sqlite/helpers/empty-store.ts';

/** The store of one test. It can be opened several times and changed directly. */
export interface EngineStore {
  readonly open: (options?: { readonly clock?: Clock }) => Promise<Provider>;
  /** Changes rows directly, as data damage or a crashed worker would. Returns the number of rows. */
  readonly tamper: (sql: string) => Promise<number>;
  remove(): Promise<void>;
}

export type StoreKind = 'SQLite' | 'PostgreSQL';

/** Returns a factory of stores. Call it inside `describe`, because it registers an `afterAll`. */
export function engineStores(kind: StoreKind): () => Promise<EngineStore> {
  return kind === 'SQLite' ? sqliteFile : postgresSchemas();
}

async function sqliteFile(): Promise<EngineStore> {
  const folder = await mkdtemp(join(tmpdir(), 'perdure-engine-'));
  const path = join(folder, 'engine.db');
  await createEmptyStore(path);
  return {
    // These tests simulate no power loss, and fsync is slow.
    open: (options) => openSqlite({ path, synchronous: 'normal', ...options }),
    async tamper(sql) {
      const db = new Database(path, { timeout: 5_000 });
      try {
        return db.prepare(sql).run().changes;
      } finally {
        db.close();
      }
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

/** One database per suite and one schema per test. */
function postgresSchemas(): () => Promise<EngineStore> {
  const pool = new SchemaPool('engine');
  afterAll(() => pool.drop());
  return async () => {
    const schema = await pool.take();
    return {
      open: (options) => pool.open(schema, { poolSize: 5, ...options }),
      tamper: async (sql) => changeSql(await pool.url(), schema, sql),
      async remove() {
        pool.release(schema);
      },
    };
  };
}
