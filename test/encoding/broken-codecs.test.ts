import { describe, expect, it } from 'vitest';
import { activity, event, orchestration, Perdure, task, type BatchRun } from '../../src/index.ts';
import { aesGcm, gzip, type PayloadCodec } from '../../src/codecs.ts';
import { createEncodedStore, storeKinds } from './encoded-store.ts';
import { xorCodec } from './xor-codec.ts';

const key = (byte: number): Uint8Array => new Uint8Array(32).fill(byte);
const hashKey = key(9);
const retryDelay = { timeout: 30_000 };

/** A codec whose methods can be replaced while it is in use. */
function switchable(): PayloadCodec & { use(parts: Partial<PayloadCodec>): void } {
  const sound = xorCodec();
  let current: PayloadCodec = sound;
  return {
    encode: (bytes, context) => current.encode(bytes, context),
    decode: (bytes, keyId) => current.decode(bytes, keyId),
    use: (parts) => {
      current = { ...sound, ...parts };
    },
  };
}

const fail = (): never => {
  throw new Error('key service is down');
};

/** Fails for payloads with a text: the codec recovers before Perdure encodes anything else. */
const failFor =
  (part: string): PayloadCodec['encode'] =>
  (bytes, context) =>
    new TextDecoder().decode(bytes).includes(part) ? fail() : xorCodec().encode(bytes, context);

const double = activity('double', async (_ctx, n: number) => 2 * n);
const twice = orchestration('twice', async (ctx, n: number) => ctx.call(double, n));
const go = event<number>('go');
const waits = orchestration('waits', async (ctx) => {
  const received = await ctx.waitFor(go);
  return ctx.call(double, received + 1);
});
const all = { orchestrations: [twice, waits], activities: [double] };

// Concurrent, because each test waits for the delay of a retry.
describe.concurrent.each(storeKinds)('codecs that fail on %s', (kind) => {
  it('a start whose input cannot be encoded rejects and creates nothing', async ({
    expect,
    onTestFinished,
  }) => {
    const store = await createEncodedStore(kind, onTestFinished);
    const codec = switchable();
    const perdure = await store.open({ codec });
    codec.use({ encode: fail });
    const { client } = perdure;
    await expect(client.start(twice, 1, { id: 'a' })).rejects.toMatchObject({
      code: 'CODEC_FAILED',
    });
    await expect(client.runTask('t', 1, { id: 'b' })).rejects.toMatchObject({
      code: 'CODEC_FAILED',
    });
    await perdure.startWorker(all);
    await expect(client.start(twice, 1, { id: 'c' })).rejects.toMatchObject({
      code: 'CODEC_FAILED',
    });
    codec.use({});
    expect(await client.count({})).toMatchObject({ count: 0 });
    expect(await (await client.start(twice, 4, { id: 'a' })).result()).toBe(8);
  });

  it('an instance is blocked while its key is unknown, and continues with the key', async ({
    expect,
    onTestFinished,
  }) => {
    const store = await createEncodedStore(kind, onTestFinished);
    const keys = { k1: key(1), k2: key(2) };
    const first = await store.open({ codec: aesGcm({ current: 'k1', keys, hashKey }) });
    await first.client.start(waits, undefined, { id: 'w' });
    await first.client.raiseEvent('w', go, 20);
    await first.client.runTask('double-task', 3, { id: 't' });
    await first.close();
    const doubleTask = task('double-task', async (_ctx, n: number) => 2 * n);
    const second = await store.open({
      codec: aesGcm({ current: 'k2', keys: { k2: key(2) }, hashKey }),
    });
    await second.startWorker({ ...all, tasks: [doubleTask], maxClaims: 2 });
    const { client } = second;
    await expect.poll(async () => (await client.get('w'))?.blocked?.code).toBe('CODEC_FAILED');
    expect((await client.get('w'))?.blocked?.reason).toContain('"k1"');
    expect((await client.why('w')).waits[0]).toMatchObject({ kind: 'blocked' });
    await expect
      .poll(async () => (await client.get('t'))?.pending?.[0]?.lastFailure?.code)
      .toBe('CODEC_FAILED');
    expect((await client.get('t'))?.pending?.[0]?.attempt).toBe(1);
    await second.close();
    const third = await store.open({ codec: aesGcm({ current: 'k2', keys, hashKey }) });
    await third.startWorker({ ...all, tasks: [doubleTask], maxClaims: 2, buildId: 'third' });
    expect(await third.client.handle('w').result({ timeout: '30s' })).toBe(42);
    expect(await third.client.handle('t').result({ timeout: '30s' })).toBe(6);
  });

  it('an instance is blocked without a codec, and nothing of it changes', async ({
    expect,
    onTestFinished,
  }) => {
    const store = await createEncodedStore(kind, onTestFinished);
    const codec = xorCodec();
    const first = await store.open({ codec });
    await first.client.start(twice, 5, { id: 'w' });
    await first.close();
    const second = await store.open();
    await second.startWorker({ ...all, maxClaims: 2 });
    await expect
      .poll(async () => (await second.client.get('w'))?.blocked?.code)
      .toBe('CODEC_FAILED');
    await second.close();
    const third = await store.open({ codec });
    await third.startWorker({ ...all, buildId: 'third' });
    expect(await third.client.handle('w').result({ timeout: '30s' })).toBe(10);
  });

  it('a result that cannot be encoded is not lost: its activity runs again', async ({
    expect,
    onTestFinished,
  }) => {
    const store = await createEncodedStore(kind, onTestFinished);
    const codec = switchable();
    const perdure = await store.open({ codec });
    let runs = 0;
    const once = activity('once', async () => {
      runs += 1;
      if (runs === 1) codec.use({ encode: fail });
      return runs;
    });
    const calls = orchestration('calls', async (ctx) => ctx.call(once));
    await perdure.startWorker({ orchestrations: [calls], activities: [once], maxClaims: 1 });
    const { client } = perdure;
    const handle = await client.start(calls, undefined, { id: 'c' });
    await expect
      .poll(async () => (await client.get('c'))?.pending?.[0]?.lastFailure?.code)
      .toBe('CODEC_FAILED');
    codec.use({});
    await expect.poll(() => handle.result(), retryDelay).toBe(2);
  });

  it('a transaction of a step whose result cannot be encoded rolls back, blocks and runs again', async ({
    expect,
    onTestFinished,
  }) => {
    const store = await createEncodedStore(kind, onTestFinished);
    const codec = switchable();
    const perdure = await store.open({ codec });
    let runs = 0;
    const pays = orchestration('pays', async (ctx) => {
      try {
        return await ctx.transaction('pay', async (tx) => {
          runs += 1;
          // Fails if the first run was not rolled back.
          await tx.query('CREATE TABLE paid (id integer)');
          if (runs === 1) codec.use({ encode: failFor('paid') });
          return ['paid', runs];
        });
      } catch (error) {
        return ['compensated', (error as { code?: string }).code];
      }
    });
    await perdure.startWorker({ orchestrations: [pays], maxClaims: 1 });
    const { client } = perdure;
    const handle = await client.start(pays, undefined, { id: 'p' });
    await expect.poll(async () => (await client.get('p'))?.blocked?.code).toBe('CODEC_FAILED');
    expect((await client.get('p'))?.blocked?.reason).toContain('key service is down');
    codec.use({});
    expect(await handle.result({ timeout: '30s' })).toEqual(['paid', 2]);
    expect((await client.get('p'))?.blocked).toBeUndefined();
  });

  it('transactions of an activity, a task and a batch whose results cannot be encoded run again', async ({
    expect,
    onTestFinished,
  }) => {
    const store = await createEncodedStore(kind, onTestFinished);
    const codec = switchable();
    const perdure = await store.open({ codec });
    const runs = { activity: 0, task: 0, batch: 0 };
    const failOnce = (name: keyof typeof runs): string => {
      runs[name] += 1;
      if (runs[name] === 1) codec.use({ encode: failFor(name) });
      return `${name} ${runs[name]}`;
    };
    const act = activity('act', (ctx) => ctx.transaction(async () => failOnce('activity')));
    const calls = orchestration('calls', async (ctx) => ctx.call(act));
    const single = task('single', (ctx) => ctx.transaction(async () => failOnce('task')));
    const together = task(
      'together',
      async (ctx, _runs: readonly BatchRun<undefined, string>[]) => {
        await ctx.transaction((_tx, members) => {
          const result = failOnce('batch');
          return members.map(() => result);
        });
      },
      { batch: { max: 2, wait: 200 } },
    );
    await perdure.startWorker({
      orchestrations: [calls],
      activities: [act],
      tasks: [single, together],
      maxClaims: 1,
    });
    const { client } = perdure;
    const toRequest = (id: string) => ({ task: together, input: undefined, options: { id } });
    const starts: readonly (readonly [string, () => Promise<unknown>])[] = [
      ['activity', () => client.start(calls, undefined, { id: 'activity' })],
      ['task', () => client.runTask(single, undefined, { id: 'task' })],
      ['batch', () => client.runTasks(['batch', 'batch-2'].map(toRequest))],
    ];
    for (const [id, start] of starts) {
      await start();
      await expect
        .poll(async () => (await client.get(id))?.pending?.[0]?.lastFailure?.code)
        .toBe('CODEC_FAILED');
      expect((await client.get(id))?.pending?.[0]?.attempt).toBe(1);
      codec.use({});
    }
    const ids = ['activity', 'task', 'batch', 'batch-2'];
    const results = ids.map((id) => client.handle(id).result({ timeout: '30s' }));
    expect(await Promise.all(results)).toEqual(['activity 2', 'task 2', 'batch 2', 'batch 2']);
  });

  it('a transaction whose closure throws CODEC_FAILED fails its step', async ({
    expect,
    onTestFinished,
  }) => {
    const store = await createEncodedStore(kind, onTestFinished);
    const codec = switchable();
    const perdure = await store.open({ codec });
    const { client } = perdure;
    const starts = orchestration('starts', async (ctx) => {
      try {
        return await ctx.transaction('start', async () => {
          codec.use({ encode: fail });
          await client.start(twice, 1).finally(() => codec.use({}));
        });
      } catch (error) {
        return (error as { failure?: { code?: string } }).failure?.code;
      }
    });
    await perdure.startWorker({ orchestrations: [starts] });
    const handle = await client.start(starts);
    expect(await handle.result({ timeout: '30s' })).toBe('CODEC_FAILED');
  });

  it('a turn that cannot be encoded blocks its instance, and runs again', async ({
    expect,
    onTestFinished,
  }) => {
    const store = await createEncodedStore(kind, onTestFinished);
    const codec = switchable();
    const perdure = await store.open({ codec });
    await perdure.startWorker({ ...all, maxClaims: 1 });
    const { client } = perdure;
    const handle = await client.start(waits, undefined, { id: 'w' });
    // Fails for the input of the activity, which the turn schedules, but not for the event.
    const failForInput: PayloadCodec['encode'] = (bytes, context) =>
      new TextDecoder().decode(bytes.subarray(4)) === '5'
        ? fail()
        : xorCodec().encode(bytes, context);
    codec.use({ encode: failForInput });
    await client.raiseEvent('w', go, 4);
    await expect.poll(async () => (await client.get('w'))?.blocked?.code).toBe('CODEC_FAILED');
    codec.use({});
    expect(await handle.result({ timeout: '30s' })).toBe(10);
  });

  it('a start whose first turn cannot be encoded creates the instance, which is blocked', async ({
    expect,
    onTestFinished,
  }) => {
    const store = await createEncodedStore(kind, onTestFinished);
    const codec = switchable();
    const perdure = await store.open({ codec });
    const secretive = orchestration('secretive', async (ctx) => {
      ctx.state.set('key', 'secret');
      await ctx.waitFor(go);
      return 'done';
    });
    await perdure.startWorker({ orchestrations: [secretive] });
    const { client } = perdure;
    const failForSecret: PayloadCodec['encode'] = (bytes, context) =>
      new TextDecoder().decode(bytes).includes('secret')
        ? fail()
        : xorCodec().encode(bytes, context);
    codec.use({ encode: failForSecret });
    const handle = await client.start(secretive, undefined, { id: 's' });
    expect(handle.created).toBe(true);
    await expect.poll(async () => (await client.get('s'))?.blocked?.code).toBe('CODEC_FAILED');
    codec.use({});
    await client.raiseEvent('s', go, 1);
    expect(await handle.result({ timeout: '30s' })).toBe('done');
    expect((await client.state('s', 'key'))?.value).toBe('secret');
  });

  it('garbage and other lengths from decode() block the instance instead of running it', async ({
    expect,
    onTestFinished,
  }) => {
    const store = await createEncodedStore(kind, onTestFinished);
    const codec = switchable();
    const perdure = await store.open({ codec });
    const { client } = perdure;
    await client.start(twice, 12, { id: 'short' });
    codec.use({
      decode: (bytes, keyId) => (xorCodec().decode(bytes, keyId) as Uint8Array).subarray(0, -1),
    });
    await perdure.startWorker({ ...all, maxClaims: 1 });
    await expect.poll(async () => (await client.get('short'))?.blocked?.code).toBe('CODEC_FAILED');
    expect((await client.get('short'))?.undecodable).toEqual(['input']);
    codec.use({ decode: () => new Uint8Array([1, 2, 3]) });
    await expect
      .poll(async () => (await client.get('short'))?.blocked?.reason, retryDelay)
      .toContain('other bytes');
    codec.use({});
    expect(await client.handle('short').result({ timeout: '30s' })).toBe(24);
  });
});

describe('codecs that fail', () => {
  it('Perdure.open() rejects a codec that does not return what it got', async () => {
    const bad: readonly Partial<PayloadCodec>[] = [
      { encode: fail },
      { decode: (bytes) => bytes.subarray(0, 2) },
      { decode: () => 'text' as never },
      { encode: () => undefined as never },
      { encode: (bytes) => ({ keyId: 'a key', bytes }) },
      { encode: () => ({ keyId: 'k', bytes: 'x' as never }) },
      { hash: () => new Uint8Array(2) },
    ];
    for (const parts of bad) {
      const codec = { ...xorCodec(), ...parts };
      await expect(Perdure.open(':memory:', { codec })).rejects.toMatchObject({
        code: 'CODEC_FAILED',
      });
    }
  });

  it('Perdure.open() rejects a value that is no codec', async () => {
    for (const codec of [{}, null, 'aes', { encode: fail }, { ...xorCodec(), hash: 1 }]) {
      await expect(Perdure.open(':memory:', { codec: codec as never })).rejects.toMatchObject({
        code: 'INVALID_OPTION',
      });
    }
  });

  it('aesGcm() and gzip() reject invalid options, without showing keys', () => {
    const keys = { k1: key(1) };
    const invalid: readonly (() => unknown)[] = [
      () => aesGcm(undefined as never),
      () => aesGcm({ current: 'k2', keys, hashKey }),
      () => aesGcm({ current: 'k1', keys: { k1: key(1).subarray(1) }, hashKey }),
      () => aesGcm({ current: 'k1', keys: { k1: 'secret' as never }, hashKey }),
      () => aesGcm({ current: 'k1', keys, hashKey: 'secret' as never }),
      () => aesGcm({ current: 'a b', keys: { 'a b': key(1) }, hashKey }),
      () => aesGcm({ current: 'k1', keys, hashKey, cacheMs: -1 }),
      () => aesGcm({ current: 'k1', keys, hashKey, key: 1 } as never),
      () => gzip({ minBytes: -1 }),
      () => gzip({ inner: {} as never }),
    ];
    for (const call of invalid) {
      expect(call).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }));
      expect(call).not.toThrow(/secret/);
    }
  });

  it('a codec with varying delays keeps the order of events', async () => {
    const sound = xorCodec();
    const codec: PayloadCodec = {
      ...sound,
      encode: async (bytes, context) => {
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 20));
        return sound.encode(bytes, context);
      },
    };
    const perdure = await Perdure.open(':memory:', { codec });
    const number = event<number>('number');
    const collect = orchestration('collect', async (ctx) => {
      const numbers: number[] = [];
      while (numbers.length < 20) numbers.push(await ctx.waitFor(number));
      return numbers;
    });
    await perdure.startWorker({ orchestrations: [collect] });
    const handle = await perdure.client.start(collect, undefined, { id: 'c' });
    const sent = Array.from({ length: 20 }, (_, n) => n);
    await Promise.all(sent.map((n) => perdure.client.raiseEvent('c', number, n)));
    expect(await handle.result()).toEqual(sent);
    await perdure.close();
  });

  it('a repeated start is recognized by its decoded input', async () => {
    const keys = { k1: key(1), k2: key(2) };
    const store = await createEncodedStore('SQLite');
    const first = await store.open({ codec: aesGcm({ current: 'k1', keys, hashKey }) });
    await first.client.start('any', { a: 1, b: 2 }, { id: 'same' });
    await first.close();
    // With another key and another order of fields.
    const { client } = await store.open({ codec: aesGcm({ current: 'k2', keys, hashKey }) });
    await client.start('any', { b: 2, a: 1 }, { id: 'same' });
    await expect(client.start('any', { b: 2, a: 2 }, { id: 'same' })).rejects.toMatchObject({
      code: 'INSTANCE_ALREADY_EXISTS',
    });
    expect((await client.get('same'))?.input).toEqual({ a: 1, b: 2 });
  });
});
