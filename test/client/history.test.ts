import { describe, expect, test } from 'vitest';
import { LocalClient } from '../../src/client/local-client.ts';
import type { HistoryEvent } from '../../src/model/event.ts';
import { encodeMessage } from '../../src/model/message.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { openStore, takeTurn, withChanges } from './store-fixture.ts';

const started: HistoryEvent = {
  kind: 'executionStarted',
  at: 1,
  name: 'order',
  version: '1',
  payload: '{"qty":1}',
};
const notes = (count: number): HistoryEvent[] =>
  Array.from({ length: count }, (_, index) => ({
    kind: 'eventReceived',
    at: 2,
    name: 'note',
    payload: String(index),
  }));

async function startWith(
  client: LocalClient,
  provider: Provider,
  history: readonly HistoryEvent[],
) {
  await client.start('order', 1, { id: 'o-1' });
  await takeTurn(provider, 'o-1', { history });
}

describe('history()', () => {
  test('history() returns decoded events with their ids', async () => {
    const { client, provider } = await openStore();
    await startWith(client, provider, [started, ...notes(1)]);
    expect(await client.history('o-1')).toEqual({
      executionId: 1,
      items: [
        { id: 1, event: started },
        { id: 2, event: { kind: 'eventReceived', at: 2, name: 'note', payload: '0' } },
      ],
    });
  });

  test('history() returns pages of 100 by default, with nextAfter until the last', async () => {
    const { client, provider } = await openStore();
    await startWith(client, provider, notes(250));
    const first = await client.history('o-1');
    expect(first.items).toHaveLength(100);
    expect(first.nextAfter).toBe(100);
    expect((await client.history('o-1', { after: 100 })).nextAfter).toBe(200);
    const rest = await client.history('o-1', { after: 100, limit: 150 });
    expect(rest.items.map(({ id }) => id)).toEqual(Array.from({ length: 150 }, (_, i) => i + 101));
    expect(rest).not.toHaveProperty('nextAfter');
    expect((await client.history('o-1', { after: 250 })).items).toEqual([]);
  });

  test('history() returns the current execution by default and an earlier one on request', async () => {
    const { client, provider } = await openStore();
    await client.start('order', 1, { id: 'o-1' });
    const start = encodeMessage({ kind: 'start', name: 'order', version: '1', payload: '2' });
    await takeTurn(provider, 'o-1', {
      history: [started],
      outcome: { status: 'continuedAsNew', version: '1', start },
    });
    await takeTurn(provider, 'o-1', { history: [{ ...started, payload: '2' }, ...notes(1)] });
    expect(await client.history('o-1')).toMatchObject({ executionId: 2, items: { length: 2 } });
    expect(await client.history('o-1', { executionId: 1 })).toMatchObject({
      executionId: 1,
      items: { length: 1 },
    });
    expect((await client.listExecutions('o-1')).items).toMatchObject([
      { executionId: 1, status: 'continuedAsNew', historyLength: 1 },
      { executionId: 2, status: 'running', historyLength: 2 },
    ]);
    expect((await client.exportHistory('o-1', 1)).events).toHaveLength(1);
  });

  test('history() of an instance without a turn is empty', async () => {
    const { client } = await openStore();
    await client.start('order', 1, { id: 'o-1' });
    expect(await client.history('o-1')).toEqual({ executionId: 1, items: [] });
    expect((await client.exportHistory('o-1')).events).toEqual([]);
  });

  test('history() rejects with the id of an undecodable event and can continue after it', async () => {
    const { client, provider } = await openStore();
    const damaged = { kind: 'eventReceived', at: 2 } as HistoryEvent;
    await startWith(client, provider, [started, damaged, ...notes(1)]);
    await expect(client.history('o-1')).rejects.toMatchObject({
      code: 'UNDECODABLE',
      message: expect.stringContaining('Event 2 of execution 1 of instance "o-1"') as string,
    });
    await expect(client.exportHistory('o-1')).rejects.toMatchObject({ code: 'UNDECODABLE' });
    expect((await client.history('o-1', { after: 2 })).items).toMatchObject([{ id: 3 }]);
  });

  test.each<[string, unknown]>([
    ['a negative cursor', { after: -1 }],
    ['a cursor as a string', { after: '1' }],
    ['a limit of 0', { limit: 0 }],
    ['a limit of 1,001', { limit: 1_001 }],
    ['execution 0', { executionId: 0 }],
    ['an execution that has not started', { executionId: 2 }],
  ])('history() with %s rejects with INVALID_INPUT', async (_, options) => {
    const { client } = await openStore();
    await client.start('order', 1, { id: 'o-1' });
    await expect(client.history('o-1', options as object)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
  });

  test.each<[string, unknown]>([
    ['a misspelled option', { execution: 1 }],
    ['a string', 'all'],
    ['null', null],
  ])('history() with %s as its options rejects with INVALID_OPTION', async (_, options) => {
    const { client } = await openStore();
    await expect(client.history('o-1', options as object)).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    });
  });

  test('history calls for an unknown instance reject with INSTANCE_NOT_FOUND', async () => {
    const { client } = await openStore();
    const missing = { code: 'INSTANCE_NOT_FOUND' };
    await expect(client.history('nobody')).rejects.toMatchObject(missing);
    await expect(client.listExecutions('nobody')).rejects.toMatchObject(missing);
    await expect(client.exportHistory('nobody')).rejects.toMatchObject(missing);
    await expect(client.history('')).rejects.toMatchObject({ code: 'INVALID_ID' });
  });
});

describe('exportHistory()', () => {
  test('exportHistory() returns all of 2,002 events and survives a JSON round trip', async () => {
    const { client, provider } = await openStore();
    const completed: HistoryEvent = { kind: 'executionCompleted', at: 3, payload: '"done"' };
    await startWith(client, provider, [started, ...notes(2_000)]);
    await client.raiseEvent('o-1', 'end');
    await takeTurn(provider, 'o-1', {
      history: [completed],
      outcome: { status: 'completed', payload: '"done"' },
    });
    const exported = await client.exportHistory('o-1');
    expect(JSON.parse(JSON.stringify(exported))).toEqual(exported);
    expect(exported).toEqual({
      instanceId: 'o-1',
      incarnation: expect.any(String) as string,
      executionId: 1,
      events: [started, ...notes(2_000), completed],
    });
  });

  test('exportHistory() rejects if the id belongs to another instance at the next read', async () => {
    const { client, provider, clock } = await openStore();
    await startWith(client, provider, [started]);
    let reads = 0;
    const changing = new LocalClient({
      provider: withChanges(provider, {
        getInstances: async (instanceIds) =>
          (await provider.getInstances(instanceIds)).map(
            (record) => record && { ...record, incarnation: `incarnation ${++reads}` },
          ),
      }),
      clock,
    });
    await expect(changing.exportHistory('o-1')).rejects.toMatchObject({
      code: 'INSTANCE_NOT_FOUND',
    });
  });
});
