import { expect, it, onTestFinished } from 'vitest';
import { Perdure } from 'perdure';
import type { HistoryEvent } from '../../src/model/event.ts';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import { takeTurn, temporaryStorePath } from './store-fixture.ts';

const events = 1_000;

it('reading a history page by page lets the event loop run after each page', async () => {
  const provider = await openSqlite({ path: await temporaryStorePath() });
  const perdure = await Perdure.open(provider);
  onTestFinished(() => perdure.close());
  const { client } = perdure;
  await client.start('large', undefined, { id: 'l' });
  const started = { at: 1, name: 'large', version: '1', payload: null } as const;
  const history: readonly HistoryEvent[] = [
    { kind: 'executionStarted', ...started },
    ...Array.from({ length: events - 1 }, (_, index): HistoryEvent => {
      const operation = index + 1;
      return { kind: 'activityScheduled', at: 1, operation, name: 'work', payload: null };
    }),
  ];
  await takeTurn(provider, 'l', { history });
  let iterations = 0;
  let isReading = true;
  const count = (): void => {
    iterations += 1;
    if (isReading) setImmediate(count);
  };
  setImmediate(count);
  let pages = 0;
  for (let after: number | undefined = 0; after !== undefined; pages += 1) {
    after = (await client.history('l', { after, limit: 100 })).nextAfter;
  }
  isReading = false;
  expect(pages).toBeGreaterThanOrEqual(events / 100);
  expect(iterations).toBeGreaterThanOrEqual(pages - 1);
});
