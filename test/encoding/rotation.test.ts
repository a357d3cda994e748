import { describe, expect, it } from 'vitest';
import { activity, event, orchestration, update } from '../../src/index.ts';
import { aesGcm } from '../../src/codecs.ts';
import { createEncodedStore, storeKinds } from './encoded-store.ts';

// `npm run test:modes` runs more instances.
const count = process.env['MODE'] === 'all-modes' ? 2_000 : 60;
const concurrency = 20;

describe.each(storeKinds)('key rotation on %s', (kind) => {
  it('instances complete while the key is rotated under load', async () => {
    const store = await createEncodedStore(kind);
    const keys = new Map<string, Uint8Array>();
    let current = '';
    const rotate = (): void => {
      current = `k${keys.size + 1}`;
      keys.set(current, new Uint8Array(32).fill(keys.size + 1));
    };
    rotate();
    const options = {
      codec: aesGcm({
        current: () => current,
        keys: (keyId) => keys.get(keyId),
        hashKey: new Uint8Array(32),
      }),
    };
    const add = activity('add', async (_ctx, { a, b }: { a: number; b: number }) => a + b);
    const sum = orchestration('sum', async (ctx, n: number) => {
      let total = n;
      for (const b of [1, 2, 3]) total = await ctx.call(add, { a: total, b });
      return total;
    });
    const raise = update<number, number>('raise');
    const end = event('end');
    // Lives through all rotations: its history and its state have payloads of every key.
    const talking = orchestration('talking', async (ctx) => {
      let total = 0;
      ctx.onUpdate(raise, {
        handle: async (n) => {
          const raised = await ctx.run('raise', () => n);
          total += raised;
          ctx.state.set('total', total);
          ctx.emit(total);
          return total;
        },
      });
      const { token, promise } = ctx.awakeable<string>();
      ctx.state.set('token', token);
      await ctx.waitFor(end);
      return [total, await promise];
    });
    const definitions = { orchestrations: [sum, talking], activities: [add] };
    const client = (await store.open(options)).client;
    const workers = await Promise.all([store.open(options), store.open(options)]);
    // Without a warm cache, each turn decodes the whole history.
    const [worker, replaying] = workers;
    await worker?.startWorker(definitions);
    await replaying?.startWorker({ ...definitions, warmCacheBytes: 0 });
    const talk = await client.start(talking, undefined, { id: 'talking' });
    const totals: number[] = [];
    const results: number[] = [];
    const todo = Array.from({ length: count }, (_, n) => n);
    const lanes = Array.from({ length: concurrency }, async () => {
      for (let n = todo.shift(); n !== undefined; n = todo.shift()) {
        if (n % Math.ceil(count / 10) === 0) {
          rotate();
          totals.push(await client.update('talking', raise, 1, { key: current }));
        }
        const handle = await client.start(sum, n, { id: `sum-${n}` });
        results[n] = await handle.result();
      }
    });
    await Promise.all(lanes);
    expect(results).toEqual(Array.from({ length: count }, (_, n) => n + 6));
    expect(keys.size).toBeGreaterThan(9);
    const expected = Array.from({ length: keys.size - 1 }, (_, n) => n + 1);
    expect(totals.toSorted((a, b) => a - b)).toEqual(expected);
    expect((await client.state('talking', 'total'))?.value).toBe(expected.length);
    await client.resolveAwakeable(String((await client.state('talking', 'token'))?.value), 'yes');
    await talk.raiseEvent(end);
    expect(await talk.result()).toEqual([expected.length, 'yes']);
    const chunks: unknown[] = [];
    for await (const entry of talk.stream()) if (entry.kind === 'chunk') chunks.push(entry.value);
    expect(chunks).toEqual(expected);
    const stored = (await store.readAll()).toString('latin1');
    const used = new Set([...stored.matchAll(/~perdure1:(k\d+):/g)].map(([, keyId]) => keyId));
    expect(used.size).toBeGreaterThan(2);
    expect((await client.list({ status: 'completed' }, { limit: 1 })).items).toHaveLength(1);
  });
});
