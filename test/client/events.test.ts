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

describe('an event', () => {
  test('reaches the queue of its instance, in order, by name or by token', async () => {
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

  test('raised many times without waiting keeps its order', async () => {
    const { client, provider } = await openStore();
    await client.start('order', 1, { id: 'o-1' });
    const numbers = Array.from({ length: 100 }, (_, index) => index);
    await Promise.all(numbers.map((number) => client.raiseEvent('o-1', 'n', number)));
    expect(await waitingEvents(provider)).toEqual(numbers.map((number) => ({ n: String(number) })));
  });

  test('for an unknown instance is refused and not kept for a later one', async () => {
    const { client, provider } = await openStore();
    await expect(client.raiseEvent('o-1', 'go')).rejects.toMatchObject({
      code: 'INSTANCE_NOT_FOUND',
      message: expect.stringContaining('"o-1"') as string,
    });
    await client.start('order', 1, { id: 'o-1' });
    expect(await waitingEvents(provider)).toEqual([]);
  });

  test('for an instance that is over is refused', async () => {
    const { client, provider } = await openStore();
    await client.start('order', 1, { id: 'o-1' });
    await finish(provider, 'o-1');
    await expect(client.raiseEvent('o-1', 'go')).rejects.toMatchObject({
      code: 'INSTANCE_OVER',
      message: expect.stringContaining('event "go" was not stored') as string,
    });
  });

  test('is refused when too many wait, and accepted again when they were taken', async () => {
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

  test('is refused beyond the limit that its store was opened with', async () => {
    const perdure = await Perdure.open(':memory:', { maxBufferedEvents: 1 });
    onTestFinished(() => perdure.close());
    const handle = await perdure.client.start('order');
    await handle.raiseEvent('go');
    await expect(handle.raiseEvent('go')).rejects.toMatchObject({ code: 'EVENT_BUFFER_FULL' });
  });

  test('of 2,000 waiting for one instance is the last that is accepted by default', async () => {
    const { client } = await openStore();
    await client.start('order', 1, { id: 'o-1' });
    const raised = await Promise.allSettled(
      Array.from({ length: 2_001 }, () => client.raiseEvent('o-1', 'go')),
    );
    expect(raised.filter(({ status }) => status === 'fulfilled')).toHaveLength(2_000);
  });

  test('is validated by the schema of its token, and stored as it was raised', async () => {
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
    ['an id that is no text', null, 'go', 1, 'INVALID_ID'],
    ['an empty name', 'o-1', '', 1, 'INVALID_NAME'],
    ['a name of 257 bytes', 'o-1', 'x'.repeat(257), 1, 'INVALID_NAME'],
    ['a name with a line break', 'o-1', 'a\nb', 1, 'INVALID_NAME'],
    ['null for a name', 'o-1', null, 1, 'INVALID_INPUT'],
    ['an object for a name', 'o-1', { name: 'go' }, 1, 'INVALID_INPUT'],
    ['an orchestration for an event', 'o-1', { kind: 'orchestration' }, 1, 'INVALID_INPUT'],
    ['a payload that JSON cannot carry', 'o-1', 'go', new Map(), 'NOT_SERIALIZABLE'],
    ['a payload that is too large', 'o-1', 'go', 'x'.repeat(101), 'PAYLOAD_TOO_LARGE'],
  ])('with %s is refused', async (_, id, event, payload, code) => {
    const { client, provider } = await openStore({ payloadLimitBytes: 100 });
    await client.start('order', 1, { id: 'o-1' });
    await expect(client.raiseEvent(id as string, event as string, payload)).rejects.toMatchObject({
      code,
    });
    expect(await waitingEvents(provider)).toEqual([]);
  });
});
