import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll } from 'vitest';
import type { Clock } from '../../src/model/clock.ts';
import { openPostgres } from '../../src/providers/postgres/provider.ts';
import type { Provider } from '../../src/providers/provider.ts';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import { createDatabase, changeSql, type TestDatabase } from '../postgres/server.ts';

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
  let database: Promise<TestDatabase> | undefined;
  let count = 0;
  afterAll(async () => (await database)?.drop());
  return async () => {
    database ??= createDatabase();
    const { url } = await database;
    const schema = `engine_${++count}`;
    return {
      open: (options) => openPostgres({ url, schema, poolSize: 5, ...options }),
      tamper: (sql) => changeSql(url, schema, sql),
      remove: () => Promise.resolve(),
    };
  };
}
