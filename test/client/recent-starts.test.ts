import { describe, expect, onTestFinished, test } from 'vitest';
import { LocalClient } from '../../src/client/local-client.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { finish, observe, openStore, settle, withChanges } from './store-fixture.ts';

describe('an instance that this client just started', () => {
  async function openObserved(change: (provider: Provider) => Partial<Provider> = () => ({})) {
    const store = await openStore();
    const changed = withChanges(store.provider, change(store.provider));
    const { provider, seen } = observe(changed);
    // Rechecks once an hour, so only hints can settle a wait.
    const client = new LocalClient({ provider, clock: store.clock, recheckMs: 3_600_000 });
    onTestFinished(() => client.close());
    return { store: store.provider, client, seen };
  }

  test('result() right after start() reads the row once, at the end', async () => {
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

  test('a later result() reads the row, because a hint may have been missed', async () => {
    const { store, client, seen } = await openObserved();
    const handle = await client.start('order', 1, { id: 'a' });
    await settle();
    expect(seen.listening).toBe(0);
    await finish(store, 'a');
    expect(await handle.result({ timeout: 0 })).toBe('done');
    expect(seen.reads).toEqual([['a']]);
  });

  test('result() resolves for an instance that ended before start() resolved', async () => {
    const { store, client, seen } = await openObserved((provider) => ({
      async createInstances(instances) {
        const results = await provider.createInstances(instances);
        await finish(store, 'a');
        return results;
      },
    }));
    const result = (await client.start('order', 1, { id: 'a' })).result();
    expect(await result).toBe('done');
    expect(seen.reads).toEqual([['a']]);
  });

  test('a pending start() keeps listening for hints when the only other wait ends', async () => {
    const held = Promise.withResolvers<void>();
    const { store, client, seen } = await openObserved((provider) => ({
      async createInstances(instances) {
        const results = await provider.createInstances(instances);
        if (instances[0]?.instanceId === 'a') await held.promise;
        return results;
      },
    }));
    const other = (await client.start('order', 1, { id: 'b' })).result();
    const starting = client.start('order', 1, { id: 'a' });
    await settle();
    await finish(store, 'b');
    await other;
    expect(seen.listening).toBe(1);
    held.resolve();
    const result = (await starting).result();
    await finish(store, 'a');
    expect(await result).toBe('done');
    // The hint arrived and contained the output.
    expect(seen.reads).toEqual([]);
  });

  test('result() for an id whose start() is unconfirmed reads the row immediately', async () => {
    const held = Promise.withResolvers<void>();
    const { store, client } = await openObserved((provider) => ({
      async createInstances(instances) {
        const results = await provider.createInstances(instances);
        if (results[0]?.kind === 'exists') await held.promise;
        return results;
      },
    }));
    await client.start('order', 1, { id: 'a' });
    await settle();
    await finish(store, 'a');
    const again = client.start('order', 1, { id: 'a' });
    await settle();
    expect(await client.handle('a').result()).toBe('done');
    held.resolve();
    await again;
  });

  test('result() after start() of an existing instance reads the row immediately', async () => {
    const { store, client, seen } = await openObserved();
    await client.start('order', 1, { id: 'a' });
    await settle();
    await finish(store, 'a');
    const again = await client.start('order', 1, { id: 'a' });
    expect(await again.result({ timeout: 0 })).toBe('done');
    expect(seen.reads).toEqual([['a']]);
    expect(seen.listening).toBe(0);
  });

  test('start() without a wait, or one that rejects, leaves no listener', async () => {
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
