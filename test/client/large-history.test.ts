import { describe, expect, it, onTestFinished } from 'vitest';
import { Perdure } from 'perdure';
import { serve } from 'perdure/server';
import type { HistoryEvent } from '../../src/model/event.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { openPostgres } from '../../src/providers/postgres/provider.ts';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import { createDatabase } from '../postgres/helpers/server.ts';
import { takeTurn, temporaryStorePath } from './store-fixture.ts';

const operations = 25_000;

/** A history of 50,001 events: each activity is scheduled and completes. */
function largeHistory(): readonly HistoryEvent[] {
  const payload = JSON.stringify('x'.repeat(200));
  const started = {
    kind: 'executionStarted',
    at: 1,
    name: 'large',
    version: '1',
    payload,
  } as const;
  const calls = Array.from({ length: operations }, (_, index): HistoryEvent[] => [
    { kind: 'activityScheduled', at: index, operation: index + 1, name: 'work', payload },
    { kind: 'activityCompleted', at: index + 1, operation: index + 1, payload },
  ]);
  return [started, ...calls.flat()];
}

async function openDatabase(): Promise<Provider> {
  const database = await createDatabase();
  onTestFinished(() => database.drop());
  return openPostgres({ url: database.url });
}

describe.each([
  ['SQLite', async () => openSqlite({ path: await temporaryStorePath() })],
  ['PostgreSQL', openDatabase],
] as const)('a history of 50,000 events on %s', (_, openStore) => {
  it('shows first pages within 500 ms and its timeline within 3 s over HTTP', async () => {
    const provider = await openStore();
    const perdure = await Perdure.open(provider);
    onTestFinished(() => perdure.close());
    await perdure.client.start('large', undefined, { id: 'l' });
    await takeTurn(provider, 'l', { history: largeHistory() });
    const server = await serve(perdure, { port: 0 });
    onTestFinished(() => server.close());
    const connection = await Perdure.connect(server.url);
    onTestFinished(() => connection.close());
    const { client } = connection;
    // CPU time of client and server, which does not depend on the load of the machine.
    const timed = async <Value>(read: () => Promise<Value>) => {
      const before = process.cpuUsage();
      const value = await read();
      const { user, system } = process.cpuUsage(before);
      return { value, ms: (user + system) / 1_000 };
    };
    await client.get('l');
    for (const order of ['asc', 'desc'] as const) {
      const { value, ms } = await timed(() =>
        client.history('l', { order, limit: 100, payloads: 'head', headBytes: 20 }),
      );
      expect(value.items).toHaveLength(100);
      expect(value.items[0]?.id).toBe(order === 'asc' ? 1 : 2 * operations + 1);
      expect(ms).toBeLessThan(500);
    }
    // One operation among 50,000 events: each page examines 5,000 of them.
    let pages = 0;
    const found: number[] = [];
    for (let after: number | undefined = 0; after !== undefined; pages += 1) {
      const { value, ms } = await timed(() =>
        client.history('l', { after: after ?? 0, operation: 20_000, payloads: 'none' }),
      );
      expect(ms).toBeLessThan(500);
      found.push(...value.items.map(({ id }) => id));
      after = value.nextAfter;
    }
    expect(found).toEqual([40_000, 40_001]);
    expect(pages).toBeGreaterThanOrEqual(10);
    const { value: timeline, ms } = await timed(() => client.timeline('l', { limit: 100_000 }));
    expect(timeline.items).toHaveLength(operations);
    expect(timeline.items.every(({ outcome }) => outcome === 'completed')).toBe(true);
    expect(timeline.nextAfter).toBeUndefined();
    expect(ms).toBeLessThan(3_000);
  }, 60_000);
});
