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

describe('a history', () => {
  test('shows decoded events with their ids', async () => {
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

  test('comes in pages', async () => {
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

  test('of an earlier execution stays readable, and the current one is the default', async () => {
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

  test('of an instance that has taken no turn is empty', async () => {
    const { client } = await openStore();
    await client.start('order', 1, { id: 'o-1' });
    expect(await client.history('o-1')).toEqual({ executionId: 1, items: [] });
    expect((await client.exportHistory('o-1')).events).toEqual([]);
  });

  test('with a damaged event says which, and can be read on after it', async () => {
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
    ['a negative place', { after: -1 }],
    ['a place that is text', { after: '1' }],
    ['a limit of 0', { limit: 0 }],
    ['a limit of 1,001', { limit: 1_001 }],
    ['execution 0', { executionId: 0 }],
    ['an execution that has not begun', { executionId: 2 }],
  ])('cannot be asked for with %s', async (_, options) => {
    const { client } = await openStore();
    await client.start('order', 1, { id: 'o-1' });
    await expect(client.history('o-1', options as object)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
  });

  test.each<[string, unknown]>([
    ['a misspelt option', { execution: 1 }],
    ['text', 'all'],
    ['null', null],
  ])('rejects %s as its options with INVALID_OPTION', async (_, options) => {
    const { client } = await openStore();
    await expect(client.history('o-1', options as object)).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    });
  });

  test('of an unknown instance is INSTANCE_NOT_FOUND', async () => {
    const { client } = await openStore();
    const missing = { code: 'INSTANCE_NOT_FOUND' };
    await expect(client.history('nobody')).rejects.toMatchObject(missing);
    await expect(client.listExecutions('nobody')).rejects.toMatchObject(missing);
    await expect(client.exportHistory('nobody')).rejects.toMatchObject(missing);
    await expect(client.history('')).rejects.toMatchObject({ code: 'INVALID_ID' });
  });
});

describe('an exported history', () => {
  test('is complete, however long, and survives being written as JSON', async () => {
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

  test('of an id that was given to another instance meanwhile is refused, not mixed', async () => {
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
