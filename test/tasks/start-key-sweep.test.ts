import Database from 'better-sqlite3';
import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openPostgres } from '../../src/providers/postgres/provider.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { newTask } from '../../src/testing/conformance/task-helpers.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { createDatabase } from '../postgres/helpers/server.ts';
import { temporaryStore } from '../sqlite/helpers/temporary-store.ts';

interface Opened {
  readonly provider: Provider;
  readonly clock: FakeClock;
  /** The number of rows in `start_keys`. */
  readonly countKeys: () => Promise<number>;
}

async function openSqliteStore(): Promise<Opened> {
  const { open, path } = temporaryStore();
  const clock = new FakeClock();
  const provider = await open({ clock });
  const db = new Database(path);
  onTestFinished(() => void db.close());
  const count = db.prepare<[], number>('SELECT count(*) FROM start_keys').pluck();
  return { provider, clock, countKeys: async () => count.get() ?? -1 };
}

async function openPostgresStore(): Promise<Opened> {
  const database = await createDatabase();
  onTestFinished(() => database.drop());
  const clock = new FakeClock();
  const provider = await openPostgres({ url: database.url, clock });
  onTestFinished(() => provider.close());
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  onTestFinished(() => client.end());
  const countKeys = async () => {
    const { rows } = await client.query<{ n: number }>(
      'SELECT count(*)::int AS n FROM perdure.start_keys',
    );
    return rows[0]?.n ?? -1;
  };
  return { provider, clock, countKeys };
}

describe.each([
  ['SQLite', openSqliteStore],
  ['PostgreSQL', openPostgresStore],
] as const)('sweeps of start keys (%s)', (_store, open) => {
  it('starts with a key delete expired keys, at most 10 each', async () => {
    const { provider, clock, countKeys } = await open();
    const windows = Array.from({ length: 25 }, (_, n) =>
      newTask(`w${n}`, { dedupeKey: `k${n}`, dedupeMs: 1_000 }),
    );
    await provider.createTasks(windows);
    expect(await countKeys()).toBe(25);
    await clock.advance(1_000);
    const counts = [];
    for (const n of [1, 2, 3, 4]) {
      await provider.createTasks([newTask(`n${n}`, { dedupeKey: `n${n}`, dedupeMs: 60_000 })]);
      counts.push(await countKeys());
    }
    expect(counts).toEqual([16, 7, 3, 4]);
    // Plain starts do not touch the keys.
    await clock.advance(60_000);
    await provider.createTasks([newTask('plain'), newTask('keyed', { dedupeKey: 'plain' })]);
    expect(await countKeys()).toBe(4);
  });

  it('a sweep keeps the key of a debounced run that has not started', async () => {
    const { provider, clock, countKeys } = await open();
    const debounced = (id: string, key: string) =>
      newTask(id, { delayMs: 1_000, debounce: { key, requestKey: id } });
    await provider.createTasks([debounced('a', 'k'), debounced('b', 'other')]);
    await provider.requestCancel([{ instanceId: 'b', reason: 'x', actor: null, cleanupMs: 0 }]);
    // No worker runs for two days.
    await clock.advance(2 * 86_400_000);
    const [result] = await provider.createTasks([debounced('c', 'another')]);
    expect(result?.kind).toBe('created');
    expect(await countKeys()).toBe(2);
    expect(await provider.createTasks([debounced('d', 'k')])).toEqual([
      { kind: 'active', instanceId: 'a' },
    ]);
  });
});
