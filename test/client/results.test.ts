import { describe, expect, test } from 'vitest';
import { LocalClient } from '../../src/client/local-client.ts';
import { FailedError } from '../../src/model/failures/errors.ts';
import { toFailure } from '../../src/model/failures/failure.ts';
import { finish, openStore, rejection, takeTurn, withChanges } from './store-fixture.ts';

describe('result()', () => {
  test.each<[string, string | null, unknown]>([
    ['an object', '{"total":5}', { total: 5 }],
    ['null', 'null', null],
    ['undefined', null, undefined],
  ])('result() resolves with %s that the instance returned', async (_, payload, value) => {
    const { client, provider } = await openStore();
    const handle = await client.start('order');
    await finish(provider, handle.id, { status: 'completed', payload });
    expect(await handle.result()).toEqual(value);
    expect(await client.wait(handle.id)).toMatchObject({ status: 'completed' });
    expect((await handle.status()).output).toEqual(value);
  });

  test('result() of a failed instance rejects with the failure as data and cause', async () => {
    const { client, provider } = await openStore();
    const handle = await client.start('order', 1, { id: 'o-1' });
    const failure = toFailure(
      Object.assign(new RangeError('too many', { cause: new Error('inner') }), { code: 'E_MANY' }),
    );
    await finish(provider, 'o-1', { status: 'failed', failure: JSON.stringify(failure) });
    const error: unknown = await handle.result().catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(FailedError);
    expect(error).toMatchObject({
      code: 'INSTANCE_FAILED',
      message: 'Instance "o-1" of "order" failed: too many',
      subject: 'order',
      failure,
      cause: {
        name: 'RangeError',
        message: 'too many',
        code: 'E_MANY',
        cause: { message: 'inner' },
      },
    });
    expect(await client.wait('o-1')).toMatchObject({ status: 'failed', failure });
    expect(await client.get('o-1')).not.toHaveProperty('output');
  });

  test.each<['canceled' | 'terminated', object]>([
    ['canceled', { name: 'CanceledError', code: 'OPERATION_CANCELED', trigger: 'cancel' }],
    ['terminated', { code: 'INSTANCE_TERMINATED' }],
  ])(
    'result() of a %s instance rejects with its code, and wait() resolves',
    async (status, expected) => {
      const { client, provider, clock } = await openStore();
      await client.start('order', 1, { id: 'o-1' });
      const later = new LocalClient({
        provider: withChanges(provider, {
          getInstances: async (ids) =>
            (await provider.getInstances(ids)).map((record) => record && { ...record, status }),
        }),
        clock,
      });
      await expect(later.handle('o-1').result()).rejects.toMatchObject(expected);
      expect(await later.wait('o-1')).toMatchObject({ status });
      await later.close();
    },
  );

  test('result() works through handle(id) and handle(definition, id)', async () => {
    const { client, provider } = await openStore();
    await client.start('order', 1, { id: 'o-1' });
    await finish(provider, 'o-1');
    const order = { kind: 'orchestration', name: 'order', version: '1' } as const;
    expect(await client.handle('o-1').result()).toBe('done');
    expect(await client.handle(order, 'o-1').result()).toBe('done');
  });

  test('result(), status() and wait() for an unknown instance reject with INSTANCE_NOT_FOUND', async () => {
    const { client } = await openStore();
    const handle = client.handle('nobody');
    const missing = { code: 'INSTANCE_NOT_FOUND' };
    await expect(handle.result()).rejects.toMatchObject(missing);
    await expect(handle.status()).rejects.toMatchObject(missing);
    await expect(client.wait('nobody')).rejects.toMatchObject(missing);
    expect(await client.get('nobody')).toBeUndefined();
  });

  test('result() and wait() reject with TIMEOUT after their timeout', async () => {
    const { client, clock } = await openStore();
    const handle = await client.start('order');
    const waits = [handle.result({ timeout: '5m' }), client.wait(handle.id, { timeout: 300_000 })];
    const reasons = Promise.all(waits.map(rejection));
    await clock.advance('5m');
    expect(await reasons).toMatchObject([{ code: 'TIMEOUT' }, { code: 'TIMEOUT' }]);
  });

  test.each<[unknown, string]>([
    [{ timeout: -1 }, 'INVALID_DURATION'],
    [{ timeout: 'soon' }, 'INVALID_DURATION'],
    [{ timeout: null }, 'INVALID_DURATION'],
    [{ timeoutMs: 5 }, 'INVALID_OPTION'],
    [5, 'INVALID_OPTION'],
    [null, 'INVALID_OPTION'],
  ])('result() and wait() with %j as options reject', async (options, code) => {
    const { client } = await openStore();
    const handle = await client.start('order');
    await expect(handle.result(options as object)).rejects.toMatchObject({ code });
    await expect(client.wait(handle.id, options as object)).rejects.toMatchObject({ code });
  });

  test('result() waits across the executions of an instance that continues as new', async () => {
    const { client, provider } = await openStore();
    const handle = await client.start('order', 1, { id: 'o-1' });
    const result = handle.result();
    await takeTurn(provider, 'o-1', {
      outcome: {
        status: 'continuedAsNew',
        version: '1',
        start: {
          kind: 'start',
          executionId: null,
          operation: null,
          data: '{"name":"order","version":"1"}',
          payload: '2',
        },
      },
    });
    expect(await client.get('o-1')).toMatchObject({ executionId: 2 });
    await finish(provider, 'o-1');
    expect(await result).toBe('done');
  });
});

describe('status(), get() and list()', () => {
  test('status() shows times, custom status and output as they occur', async () => {
    const { client, provider, clock } = await openStore();
    const createdAt = clock.now();
    const handle = await client.start('order', 1, { id: 'o-1' });
    await clock.advance(5);
    await takeTurn(provider, 'o-1', { customStatus: '{"step":1}' });
    expect(await handle.status()).toEqual({
      id: 'o-1',
      kind: 'orchestration',
      name: 'order',
      version: '1',
      status: 'running',
      executionId: 1,
      customStatus: { step: 1 },
      customStatusVersion: 1,
      createdAt,
      startedAt: createdAt + 5,
    });
    await clock.advance(5);
    await handle.raiseEvent('go');
    await finish(provider, 'o-1');
    expect(await handle.status()).toMatchObject({
      status: 'completed',
      output: 'done',
      customStatus: { step: 1 },
      endedAt: createdAt + 10,
    });
  });

  test('status() shows why an instance is blocked, and list() filters by it', async () => {
    const { client, provider, clock } = await openStore();
    const handle = await client.start('order');
    const [item] = await provider.fetchOrchestrationItems({ max: 1, lockMs: 1_000, waitMs: 0 });
    const blocked = { reason: 'the code changed', buildId: 'b1' };
    await provider.abandonOrchestrationItems([
      { lockToken: item!.lockToken, delayMs: 1_000, giveBackClaim: true, blocked },
    ]);
    expect(await handle.status()).toMatchObject({
      blocked: { reason: 'the code changed', at: clock.now() },
    });
    expect((await client.list({ blocked: true })).items).toHaveLength(1);
    expect((await client.list({ blocked: false })).items).toHaveLength(0);
  });

  test('a stored payload with __proto__ pollutes no prototype', async () => {
    const { client, provider } = await openStore();
    const handle = await client.start('order');
    const payload = '{"a":1,"__proto__":{"polluted":true}}';
    await takeTurn(provider, handle.id, {
      customStatus: payload,
      outcome: { status: 'completed', payload },
    });
    const info = await handle.status();
    expect(info.output).toEqual({ a: 1 });
    expect(Object.assign({}, info.customStatus)).not.toHaveProperty('polluted');
    expect(Object.assign({}, await handle.result())).not.toHaveProperty('polluted');
  });

  test('list() names undecodable fields of an instance and returns the others intact', async () => {
    const { client, provider } = await openStore();
    const [good, bad] = [await client.start('order'), await client.start('order')];
    await finish(provider, good.id);
    const outcome = { status: 'completed', payload: '{"half' } as const;
    await takeTurn(provider, bad.id, { outcome, customStatus: '][' });
    expect((await client.list({}, { payloads: true })).items).toMatchObject([
      { id: bad.id, status: 'completed', undecodable: ['output', 'customStatus'] },
      { id: good.id, output: 'done' },
    ]);
    expect(await client.get(bad.id)).not.toHaveProperty('output');
    await expect(bad.result()).rejects.toMatchObject({ code: 'UNDECODABLE' });
  });

  test('result() rejects with INSTANCE_FAILED even if the stored failure is undecodable', async () => {
    const { client, provider } = await openStore();
    const handle = await client.start('order');
    await finish(provider, handle.id, { status: 'failed', failure: '{"name":' });
    await expect(handle.result()).rejects.toMatchObject({
      code: 'INSTANCE_FAILED',
      failure: { code: 'UNDECODABLE' },
    });
  });
});

describe('a closed client', () => {
  test('a closed client rejects its waits and every call; the store stays open', async () => {
    const { client, provider, clock } = await openStore();
    const handle = await client.start('order', 1, { id: 'o-1' });
    const closed = { code: 'CLOSED' };
    const waits = [handle.result(), client.wait('o-1', { timeout: '1d' })].map(rejection);
    await client.close();
    await client.close();
    expect(await Promise.all(waits)).toMatchObject([closed, closed]);
    const calls = [
      () => client.start('order'),
      () => client.get('o-1'),
      () => client.wait('o-1'),
      () => client.list(),
      () => client.history('o-1'),
      () => client.listExecutions('o-1'),
      () => client.exportHistory('o-1'),
      () => client.raiseEvent('o-1', 'go'),
      () => handle.result(),
      () => handle.status(),
      () => handle.raiseEvent('go'),
    ];
    for (const call of calls) await expect(call()).rejects.toMatchObject(closed);
    expect(clock.alarmCount).toBe(0);
    const other = new LocalClient({ provider, clock });
    expect(await other.get('o-1')).toMatchObject({ status: 'pending' });
  });
});
