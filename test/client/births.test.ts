import { describe, expect, onTestFinished, test } from 'vitest';
import { Client } from '../../src/client/client.ts';
import { finish, observe, openStore, settle, withChanges } from './store-fixture.ts';

describe('an instance just started by the client', () => {
  async function openObserved() {
    const store = await openStore();
    const { provider, seen } = observe(store.provider);
    const client = new Client({ provider, clock: store.clock });
    onTestFinished(() => client.close());
    return { store: store.provider, client, seen };
  }

  test('is read once, when it is over', async () => {
    const { store, client, seen } = await openObserved();
    const handle = await client.start('order', 1, { id: 'a' });
    const result = handle.result();
    const info = client.wait('a');
    await settle();
    expect(seen.reads).toEqual([]);
    await finish(store, 'a');
    expect(await result).toBe('done');
    expect(await info).toMatchObject({ status: 'completed' });
    expect(seen.reads).toEqual([['a']]);
  });

  test('is read when it is waited for later, because its end may have been missed', async () => {
    const { store, client, seen } = await openObserved();
    const handle = await client.start('order', 1, { id: 'a' });
    await settle();
    expect(seen.listening).toBe(0);
    await finish(store, 'a');
    expect(await handle.result({ timeout: 0 })).toBe('done');
    expect(seen.reads).toEqual([['a']]);
  });

  test('that is over before start has answered gives its result at once', async () => {
    const store = await openStore();
    const { provider, seen } = observe(store.provider);
    const client = new Client({
      provider: withChanges(provider, {
        async createInstances(instances) {
          const results = await provider.createInstances(instances);
          await finish(store.provider, 'a');
          return results;
        },
      }),
      clock: store.clock,
    });
    onTestFinished(() => client.close());
    expect(await (await client.start('order', 1, { id: 'a' })).result()).toBe('done');
    expect(seen.reads).toEqual([['a']]);
  });

  test('but had existed before is read at once, because its end may be long past', async () => {
    const { store, client, seen } = await openObserved();
    await client.start('order', 1, { id: 'a' });
    await settle();
    await finish(store, 'a');
    const again = await client.start('order', 1, { id: 'a' });
    expect(await again.result({ timeout: 0 })).toBe('done');
    expect(seen.reads).toEqual([['a']]);
    expect(seen.listening).toBe(0);
  });

  test('and never waited for leaves no listener, and neither does one that was refused', async () => {
    const { client, seen } = await openObserved();
    await Promise.allSettled([
      client.start('order', 1, { id: 'a' }),
      client.start('order', 2, { id: 'a' }),
      client.start('order', 1, { id: 'b' }),
    ]);
    expect(seen.listening).toBe(1);
    await settle();
    expect(seen.listening).toBe(0);
    await expect(client.start('order', 3, { id: 'a' })).rejects.toThrow('another input');
    expect(seen.listening).toBe(0);
  });
});
