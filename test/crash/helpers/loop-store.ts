import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Perdure } from '../../../src/index.ts';
import { startEmbeddedServer } from '../../postgres/helpers/embedded-server.ts';
import { startTcpProxy } from '../../postgres/helpers/tcp-proxy.ts';
import { PostgresState } from '../oracles/postgres-state.ts';
import { SqliteState } from '../oracles/sqlite-state.ts';
import type { StoredState } from '../oracles/stored-state.ts';

/** Faults that a loop can inject into the store. */
export interface StoreFaults {
  /** Kills the server and restarts it. */
  restart(): Promise<void>;
  /** Cuts every connection to the server. Returns how many waited for an answer. */
  cut(): number;
  /** Whether a connection waits for an answer. */
  isWaiting(): boolean;
}

/** The store of a loop. */
export interface LoopStore {
  /** What the programs open: a path or a URL. */
  readonly store: string;
  readonly state: StoredState;
  readonly faults?: StoreFaults;
  close(): Promise<void>;
}

/** A database file in a separate folder. */
export async function createSqliteLoopStore(): Promise<LoopStore> {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-crash-'));
  const store = join(folder, 'store.db');
  await (await Perdure.open(store)).close();
  const state = new SqliteState(store);
  return {
    store,
    state,
    async close() {
      await state.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** A separate server with fsync on, behind a proxy. */
export async function createPostgresLoopStore(): Promise<LoopStore> {
  const server = await startEmbeddedServer({ durable: true });
  const proxy = await startTcpProxy(server.url);
  await (await Perdure.open(proxy.url)).close();
  const state = new PostgresState(server.url);
  return {
    store: proxy.url,
    state,
    faults: {
      cut: () => proxy.cut(),
      isWaiting: () => proxy.waiting > 0,
      async restart() {
        await server.crash();
        await server.start();
      },
    },
    async close() {
      await state.close();
      await proxy.close();
      await server.remove();
    },
  };
}
