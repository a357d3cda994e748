import Database from 'better-sqlite3';
import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openPostgres } from '../../src/providers/postgres/provider.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { completed } from '../../src/testing/conformance/deletion-helpers.ts';
import { newInstance, newTurn } from '../../src/testing/conformance/sample-data.ts';
import { newTask } from '../../src/testing/conformance/task-helpers.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { createDatabase } from '../postgres/helpers/server.ts';
import { temporaryStore } from '../sqlite/helpers/temporary-store.ts';

const minuteMs = 60_000;

interface Opened {
  readonly provider: Provider;
  readonly clock: FakeClock;
  /** The rows of `deleted_starts`, as JSON. */
  readonly read: () => Promise<readonly string[]>;
}

async function openSqliteStore(): Promise<Opened> {
  const { open, path } = temporaryStore();
  const clock = new FakeClock();
  const provider = await open({ clock });
  const db = new Database(path);
  onTestFinished(() => void db.close());
  const rows = db.prepare('SELECT * FROM deleted_starts');
  return { provider, clock, read: async () => rows.all().map((row) => JSON.stringify(row)) };
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
  const read = async () => {
    const { rows } = await client.query<object>('SELECT * FROM perdure.deleted_starts');
    return rows.map((row) => JSON.stringify(row));
  };
  return { provider, clock, read };
}

/** Creates instances that end with their first turn. */
async function run(provider: Provider, ...ids: readonly string[]): Promise<void> {
  const firstTurn = newTurn({ outcome: completed });
  await provider.createInstances(ids.map((id) => newInstance(id, { firstTurn })));
}

function remove(provider: Provider, ...ids: readonly string[]): Promise<unknown> {
  return provider.deleteInstancesAtomic(ids.map((id) => ({ instanceIds: [id], force: true })));
}

describe.each([
  ['SQLite', openSqliteStore],
  ['PostgreSQL', openPostgresStore],
] as const)('the starts of deleted instances (%s)', (_store, open) => {
  it('are recorded for ten minutes, without the ids', async () => {
    const { provider, clock, read } = await open();
    await run(provider, 'ada lovelace');
    await provider.createTasks([newTask('a task', { incarnation: 'its incarnation' })]);
    await remove(provider, 'ada lovelace', 'a task');
    const rows = await read();
    expect(rows).toHaveLength(2);
    expect(rows.join()).not.toMatch(/ada|task|incarnation/);
    await clock.advance(10 * minuteMs - 1);
    await provider.reclaimDeleted(1_000);
    expect(await read()).toEqual(rows);
    await clock.advance(1);
    await provider.reclaimDeleted(1_000);
    expect(await read()).toEqual([]);
  });

  it('are not recorded for instances that began ten minutes ago', async () => {
    const { provider, clock, read } = await open();
    await run(provider, 'old', 'older');
    await clock.advance(10 * minuteMs);
    await remove(provider, 'old', 'older');
    expect(await read()).toEqual([]);
  });

  it('are swept by later deletions of young instances', async () => {
    const { provider, clock, read } = await open();
    const ids = Array.from({ length: 50 }, (_, index) => `one ${index}`);
    await run(provider, ...ids);
    await remove(provider, ...ids);
    expect(await read()).toHaveLength(50);
    await clock.advance(10 * minuteMs);
    await run(provider, 'young');
    await remove(provider, 'young');
    expect(await read()).toHaveLength(1);
  });
});
