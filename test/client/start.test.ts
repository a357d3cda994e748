import { describe, expect, test } from 'vitest';
import type { InstanceStarter } from '../../src/client/local-backend.ts';
import type { OrchestrationRef, StandardSchema } from '../../src/model/definition.ts';
import { decodeMessage } from '../../src/model/message.ts';
import type { NewInstance } from '../../src/providers/contract/instances.ts';
import { finish, openStore } from './store-fixture.ts';

const order: OrchestrationRef<{ sku: string; qty: number }, string> = {
  kind: 'orchestration',
  name: 'order',
  version: '3',
};
const input = { sku: 'a', qty: 1 };

describe('start()', () => {
  test('start() creates a pending instance with the name, version and input given', async () => {
    const { client, provider, clock } = await openStore();
    const handle = await client.start(order, input, { id: 'o-1' });
    expect(handle.id).toBe('o-1');
    expect(await client.get('o-1')).toEqual({
      id: 'o-1',
      kind: 'orchestration',
      name: 'order',
      version: '3',
      status: 'pending',
      executionId: 1,
      input,
      createdAt: clock.now(),
    });
    const [item] = await provider.fetchOrchestrationItems({ max: 9, lockMs: 1_000, waitMs: 0 });
    expect(item?.messages.map((message) => decodeMessage(message))).toMatchObject([
      { kind: 'start', name: 'order', version: '3', payload: '{"sku":"a","qty":1}' },
    ]);
  });

  test('start() by name sets no version unless its options name one', async () => {
    const { client } = await openStore();
    const any = await client.start('order', input);
    const second = await client.start('order', input, { version: '2' });
    const pinned = await client.start(order, input, { version: '4' });
    expect((await any.status()).version).toBeUndefined();
    expect((await second.status()).version).toBe('2');
    expect((await pinned.status()).version).toBe('4');
  });

  test('start() without an id generates ids that sort by time', async () => {
    const { client, clock } = await openStore();
    const first = await client.start('order');
    await clock.advance(1);
    const second = await client.start('order');
    expect(first.id < second.id).toBe(true);
    expect((await client.list()).items.map(({ id }) => id)).toEqual([second.id, first.id]);
  });

  test('start() repeated with the same id, name and input returns the existing instance', async () => {
    const { client, provider } = await openStore();
    await client.start(order, input, { id: 'o-1' });
    await client.start('order', { qty: 1, sku: 'a' }, { id: 'o-1' });
    await finish(provider, 'o-1');
    const again = await client.start(order, input, { id: 'o-1' });
    expect(await again.result()).toBe('done');
    expect((await client.list()).items).toHaveLength(1);
  });

  test('concurrent start() calls with one id create one instance', async () => {
    const { client } = await openStore();
    const handles = await Promise.all(
      Array.from({ length: 50 }, () => client.start(order, input, { id: 'o-1' })),
    );
    expect(new Set(handles.map(({ id }) => id))).toEqual(new Set(['o-1']));
    expect((await client.list()).items).toHaveLength(1);
  });

  test.each<[string, string, unknown, string]>([
    ['another input', 'order', { sku: 'b', qty: 1 }, 'with another input'],
    ['no input', 'order', undefined, 'with another input'],
    ['another orchestration', 'refund', input, 'with "order"'],
  ])(
    'start() with a taken id and %s rejects with INSTANCE_ALREADY_EXISTS',
    async (_, name, other, why) => {
      const { client, provider } = await openStore();
      await client.start(order, input, { id: 'o-1' });
      const refused = {
        code: 'INSTANCE_ALREADY_EXISTS',
        message: expect.stringContaining(`Instance "o-1" was already started ${why}`) as string,
      };
      await expect(client.start(name, other, { id: 'o-1' })).rejects.toMatchObject(refused);
      await finish(provider, 'o-1');
      await expect(client.start(name, other, { id: 'o-1' })).rejects.toMatchObject(refused);
    },
  );

  test('start() with a taken id distinguishes large inputs that differ in one character', async () => {
    const { client } = await openStore();
    const text = 'x'.repeat(10_000);
    await client.start('order', text, { id: 'o-1' });
    await client.start('order', text, { id: 'o-1' });
    await expect(client.start('order', `${text}y`, { id: 'o-1' })).rejects.toMatchObject({
      code: 'INSTANCE_ALREADY_EXISTS',
    });
  });

  test('an invalid start() among concurrent ones rejects alone', async () => {
    const { client } = await openStore();
    await client.start('order', 1, { id: 'taken' });
    const results = await Promise.allSettled([
      client.start('order', 1, { id: 'a' }),
      client.start('order', 2, { id: 'taken' }),
      client.start('order', 1n, { id: 'c' }),
      client.start('order', 1, { id: 'd' }),
    ]);
    expect(results.map(({ status }) => status)).toEqual([
      'fulfilled',
      'rejected',
      'rejected',
      'fulfilled',
    ]);
  });
});

describe('start() with an input schema', () => {
  const schemaOf = (validate: StandardSchema['~standard']['validate']): OrchestrationRef => ({
    ...order,
    inputSchema: { '~standard': { version: 1, vendor: 'test', validate } },
  });

  test('start() stores the raw input, because the worker validates it again', async () => {
    const { client, provider } = await openStore();
    const parsed = schemaOf((value) => Promise.resolve({ value: Number(value) }));
    await client.start(parsed, '5', { id: 'o-1' });
    await client.start('order', '5', { id: 'o-1' });
    const [item] = await provider.fetchOrchestrationItems({ max: 9, lockMs: 1_000, waitMs: 0 });
    expect(item?.messages).toMatchObject([{ kind: 'start', payload: '"5"' }]);
  });

  test('start() with input that violates its schema names the path and creates nothing', async () => {
    const { client } = await openStore();
    const refusing = schemaOf(() => ({ issues: [{ message: 'too few', path: ['qty'] }] }));
    await expect(client.start(refusing, input, { id: 'o-1' })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining('Orchestration "order"') as string,
    });
    await expect(client.start(refusing, input)).rejects.toThrow('qty: too few');
    expect(await client.get('o-1')).toBeUndefined();
  });
});

describe('start() with invalid arguments', () => {
  const throwing = new Proxy(
    {},
    {
      get() {
        throw new Error('not for you');
      },
    },
  );
  const { proxy: revoked, revoke } = Proxy.revocable({}, {});
  revoke();

  test.each<[string, unknown, string, string]>([
    ['null', null, 'INVALID_INPUT', 'got null'],
    ['undefined', undefined, 'INVALID_INPUT', 'got undefined'],
    ['a number', 42, 'INVALID_INPUT', 'got a number'],
    ['an empty object', {}, 'INVALID_INPUT', 'got another object'],
    ['an array', ['order'], 'INVALID_INPUT', 'got another object'],
    ['a bare handler', async () => 1, 'INVALID_INPUT', 'got a function'],
    ['an activity', { kind: 'activity', name: 'a' }, 'INVALID_INPUT', 'got an activity'],
    ['a proxy that throws', throwing, 'INVALID_INPUT', 'an object that cannot be read'],
    ['a revoked proxy', revoked, 'INVALID_INPUT', 'an object that cannot be read'],
    ['an empty name', '', 'INVALID_NAME', 'is empty'],
    ['a definition without a name', { ...order, name: undefined }, 'INVALID_NAME', 'a string'],
    ['a definition without a version', { ...order, version: null }, 'INVALID_NAME', 'version'],
    ['a definition with a broken schema', { ...order, inputSchema: 5 }, 'INVALID_INPUT', 'schema'],
  ])(
    'start() rejects %s as its definition and creates nothing',
    async (_, definition, code, message) => {
      const { client } = await openStore();
      await expect(client.start(definition as string, input)).rejects.toMatchObject({
        code,
        message: expect.stringContaining(message) as string,
      });
      expect((await client.list()).items).toEqual([]);
    },
  );

  test.each<[string, unknown, string]>([
    ['null', null, 'INVALID_OPTION'],
    ['a string', 'o-1', 'INVALID_OPTION'],
    ['a misspelled id', { instanceId: 'o-1' }, 'INVALID_OPTION'],
    ['a revoked proxy', revoked, 'INVALID_OPTION'],
    ['an empty id', { id: '' }, 'INVALID_ID'],
    ['an id of 1,001 bytes', { id: 'x'.repeat(1_001) }, 'INVALID_ID'],
    ['an id with a quote', { id: "o'1" }, 'INVALID_ID'],
    ['an id that is a number', { id: 1 }, 'INVALID_ID'],
    ['an empty version', { version: '' }, 'INVALID_NAME'],
  ])('start() rejects %s in its options and creates nothing', async (_, options, code) => {
    const { client } = await openStore();
    await expect(client.start('order', 1, options as object)).rejects.toMatchObject({ code });
    expect((await client.list()).items).toEqual([]);
  });

  test('start() rejects input that is not serializable or exceeds the payload limit', async () => {
    const { client } = await openStore({ payloadLimitBytes: 100 });
    await expect(client.start('order', { total: 1n })).rejects.toMatchObject({
      code: 'NOT_SERIALIZABLE',
      message: expect.stringContaining('The input of Orchestration "order"') as string,
    });
    await expect(client.start('order', 'x'.repeat(99))).rejects.toMatchObject({
      code: 'PAYLOAD_TOO_LARGE',
    });
    await client.start('order', 'x'.repeat(98));
    expect((await client.list()).items).toHaveLength(1);
  });

  test.each([0, -1, 1.5, Number.NaN, '100'])(
    'payloadLimitBytes or maxPendingEvents of %s rejects with INVALID_OPTION',
    async (limit) => {
      await expect(openStore({ payloadLimitBytes: limit as number })).rejects.toMatchObject({
        code: 'INVALID_OPTION',
      });
      await expect(openStore({ maxPendingEvents: limit as number })).rejects.toMatchObject({
        code: 'INVALID_OPTION',
      });
    },
  );
});

describe('start() with a worker in the process', () => {
  test('start() delegates to the worker first, which creates the instance', async () => {
    const asked: NewInstance[] = [];
    const starter: InstanceStarter = {
      start(instance) {
        asked.push(instance);
        return Promise.resolve({ kind: 'created', instanceKey: 1, claimed: [] });
      },
    };
    const { client } = await openStore({ starter: () => starter });
    await client.start(order, input, { id: 'o-1' });
    expect(asked).toMatchObject([{ instanceId: 'o-1', name: 'order', version: '3' }]);
    expect(await client.get('o-1')).toBeUndefined();
  });

  test('start() creates the instance if the worker declines, and rejects on its conflict', async () => {
    const { client } = await openStore({ starter: () => ({ start: () => undefined }) });
    await client.start(order, input, { id: 'o-1' });
    expect(await client.get('o-1')).toMatchObject({ status: 'pending' });

    const taken = await openStore({
      starter: () => ({ start: () => Promise.resolve({ kind: 'conflict', name: 'refund' }) }),
    });
    await expect(taken.client.start(order, input, { id: 'o-1' })).rejects.toMatchObject({
      code: 'INSTANCE_ALREADY_EXISTS',
    });
  });
});
