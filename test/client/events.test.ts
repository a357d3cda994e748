import { describe, expect, onTestFinished, test } from 'vitest';
import type { EventToken, StandardSchema } from '../../src/model/definition.ts';
import { decodeMessage } from '../../src/model/message.ts';
import { Perdure } from '../../src/perdure.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { finish, openStore } from './store-fixture.ts';

async function waitingEvents(provider: Provider): Promise<unknown[]> {
  const [item] = await provider.fetchOrchestrationItems({ max: 1, lockMs: 1_000, waitMs: 0 });
  const messages = item?.messages.map((message) => decodeMessage(message)) ?? [];
  return messages.flatMap((message) =>
    message.kind === 'eventRaised' ? [{ [message.name]: message.payload }] : [],
  );
}

const approved: EventToken<{ by: string }> = { kind: 'event', name: 'approved' };

describe('raiseEvent()', () => {
  test('raiseEvent() queues events in order, by name or by token', async () => {
    const { client, provider } = await openStore();
    const handle = await client.start('order', 1, { id: 'o-1' });
    await client.raiseEvent('o-1', 'note', 1);
    await handle.raiseEvent('note', 2);
    await handle.raiseEvent(approved, { by: 'someone' });
    await client.raiseEvent('o-1', 'bare');
    expect(await waitingEvents(provider)).toEqual([
      { note: '1' },
      { note: '2' },
      { approved: '{"by":"someone"}' },
      { bare: null },
    ]);
  });

  test('concurrent raiseEvent() calls keep their order', async () => {
    const { client, provider } = await openStore();
    await client.start('order', 1, { id: 'o-1' });
    const numbers = Array.from({ length: 100 }, (_, index) => index);
    await Promise.all(numbers.map((number) => client.raiseEvent('o-1', 'n', number)));
    expect(await waitingEvents(provider)).toEqual(numbers.map((number) => ({ n: String(number) })));
  });

  test('raiseEvent() to an unknown instance rejects and stores nothing for a later one', async () => {
    const { client, provider } = await openStore();
    await expect(client.raiseEvent('o-1', 'go')).rejects.toMatchObject({
      code: 'INSTANCE_NOT_FOUND',
      message: expect.stringContaining('"o-1"') as string,
    });
    await client.start('order', 1, { id: 'o-1' });
    expect(await waitingEvents(provider)).toEqual([]);
  });

  test('raiseEvent() to an ended instance rejects with INSTANCE_OVER', async () => {
    const { client, provider } = await openStore();
    await client.start('order', 1, { id: 'o-1' });
    await finish(provider, 'o-1');
    await expect(client.raiseEvent('o-1', 'go')).rejects.toMatchObject({
      code: 'INSTANCE_OVER',
      message: expect.stringContaining('event "go" was not stored') as string,
    });
  });

  test('raiseEvent() rejects while the buffer is full and resolves once it is drained', async () => {
    const { client, provider } = await openStore({ maxPendingEvents: 3 });
    await client.start('order', 1, { id: 'o-1' });
    await client.start('order', 1, { id: 'o-2' });
    const raised = await Promise.allSettled(
      Array.from({ length: 5 }, () => client.raiseEvent('o-1', 'go')),
    );
    expect(raised.map(({ status }) => status)).toEqual([
      'fulfilled',
      'fulfilled',
      'fulfilled',
      'rejected',
      'rejected',
    ]);
    await expect(client.raiseEvent('o-1', 'other')).rejects.toMatchObject({
      code: 'EVENT_BUFFER_FULL',
    });
    await client.raiseEvent('o-2', 'go');
    await finish(provider, 'o-1', { status: 'running' });
    await client.raiseEvent('o-1', 'go');
  });

  test('maxBufferedEvents of Perdure.open() limits the buffered events of an instance', async () => {
    const perdure = await Perdure.open(':memory:', { maxBufferedEvents: 1 });
    onTestFinished(() => perdure.close());
    const handle = await perdure.client.start('order');
    await handle.raiseEvent('go');
    await expect(handle.raiseEvent('go')).rejects.toMatchObject({ code: 'EVENT_BUFFER_FULL' });
  });

  test('an instance buffers 2,000 events by default, and the next one rejects', async () => {
    const { client } = await openStore();
    await client.start('order', 1, { id: 'o-1' });
    const raised = await Promise.allSettled(
      Array.from({ length: 2_001 }, () => client.raiseEvent('o-1', 'go')),
    );
    expect(raised.filter(({ status }) => status === 'fulfilled')).toHaveLength(2_000);
  });

  test('raiseEvent() validates with the schema of its token and stores the raw payload', async () => {
    const { client, provider } = await openStore();
    await client.start('order', 1, { id: 'o-1' });
    const schema: StandardSchema<{ by: string }> = {
      '~standard': {
        version: 1,
        vendor: 'test',
        validate: (value) =>
          (value as { by?: unknown } | undefined)?.by === undefined
            ? { issues: [{ message: 'missing', path: ['by'] }] }
            : { value: { by: 'checked' } },
      },
    };
    const token = { ...approved, schema };
    await client.raiseEvent('o-1', token, { by: 'someone' });
    await expect(client.raiseEvent('o-1', token, {} as { by: string })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining('Event "approved"') as string,
    });
    expect(await waitingEvents(provider)).toEqual([{ approved: '{"by":"someone"}' }]);
  });

  test.each<[string, unknown, unknown, unknown, string]>([
    ['an empty id', '', 'go', 1, 'INVALID_ID'],
    ['an id that is not a string', null, 'go', 1, 'INVALID_ID'],
    ['an empty name', 'o-1', '', 1, 'INVALID_NAME'],
    ['a name of 257 bytes', 'o-1', 'x'.repeat(257), 1, 'INVALID_NAME'],
    ['a name with a line break', 'o-1', 'a\nb', 1, 'INVALID_NAME'],
    ['null as the name', 'o-1', null, 1, 'INVALID_INPUT'],
    ['an object as the name', 'o-1', { name: 'go' }, 1, 'INVALID_INPUT'],
    ['an orchestration as the event', 'o-1', { kind: 'orchestration' }, 1, 'INVALID_INPUT'],
    ['a payload that is not serializable', 'o-1', 'go', new Map(), 'NOT_SERIALIZABLE'],
    ['a payload that is too large', 'o-1', 'go', 'x'.repeat(101), 'PAYLOAD_TOO_LARGE'],
  ])('raiseEvent() with %s rejects and stores nothing', async (_, id, event, payload, code) => {
    const { client, provider } = await openStore({ payloadLimitBytes: 100 });
    await client.start('order', 1, { id: 'o-1' });
    await expect(client.raiseEvent(id as string, event as string, payload)).rejects.toMatchObject({
      code,
    });
    expect(await waitingEvents(provider)).toEqual([]);
  });
});
