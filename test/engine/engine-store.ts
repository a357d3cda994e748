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

/** A store of one test, which can be opened more than once and reached behind the engine's back. */
export interface EngineStore {
  readonly open: (options?: { readonly clock?: Clock }) => Promise<Provider>;
  /** Changes rows as damage or a crashed worker would; says how many. */
  readonly tamper: (sql: string) => Promise<number>;
  remove(): Promise<void>;
}

export type StoreKind = 'SQLite' | 'PostgreSQL';

/** Answers how to make stores of a kind; called where a suite is described. */
export function engineStores(kind: StoreKind): () => Promise<EngineStore> {
  return kind === 'SQLite' ? sqliteFile : postgresSchemas();
}

async function sqliteFile(): Promise<EngineStore> {
  const folder = await mkdtemp(join(tmpdir(), 'perdure-engine-'));
  const path = join(folder, 'engine.db');
  return {
    open: (options) => openSqlite({ path, ...options }),
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

/** One database for a suite, with a schema for each test. */
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
