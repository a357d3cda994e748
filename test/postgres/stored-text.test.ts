import { expect, it } from 'vitest';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import {
  event,
  newInstance,
  newTurn,
  workItem,
} from '../../src/testing/conformance/sample-data.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

// Ids and names with such characters are rejected before they reach a store. Payloads can contain any text.
const unusualTexts = [
  'nul \0 inside',
  '\0',
  '\u0001',
  '\u0001\0\u0001',
  'half a pair \ud800',
  '\udc00 other half',
];

/** Stores a text in every field that accepts any text. Returns what is read back. */
async function stored(provider: Provider, text: string): Promise<readonly unknown[]> {
  const message = { kind: text, executionId: null, operation: null, data: text, payload: text };
  await provider.createInstances([
    newInstance('a', {
      firstTurn: newTurn({
        events: [{ ...event('x'), kind: text, data: text, payload: text }],
        workItems: [workItem(1, { payload: text, options: text })],
        customStatus: text,
      }),
    }),
    newInstance('b', {
      firstTurn: newTurn({ outcome: { status: 'completed', payload: text } }),
    }),
  ]);
  await provider.enqueueMessages([{ instanceId: 'a', message }]);
  const [a, b] = await provider.getInstances(['a', 'b']);
  const page = { executionId: 1, after: 0, limit: 10 };
  const history = await provider.readInstanceHistory({ instanceId: 'a', ...page });
  const fetch = { max: 1, lockMs: 60_000, waitMs: 0 };
  const [item] = await provider.fetchWorkItems(fetch);
  const [claimed] = await provider.fetchOrchestrationItems(fetch);
  const [read] = claimed?.messages ?? [];
  return [
    [a?.customStatus, b?.output],
    history,
    [item?.payload, item?.options],
    [read?.kind, read?.data, read?.payload],
  ];
}

it.each(unusualTexts)('PostgreSQL returns the stored text %j as SQLite does', async (text) => {
  const sqlite = await openSqlite({ path: ':memory:' });
  const { open } = await temporaryStore();
  expect(await stored(await open(), text)).toEqual(await stored(sqlite, text));
  await sqlite.close();
});
