import { expect, test } from 'vitest';
import { event, orchestration, ProviderError, type Client, type Provider } from 'perdure';
import { describeManaged } from './managed-store.ts';

const said = event<string>('said');
let runs: string[] = [];
const counted = orchestration('counted', async (ctx) => {
  if (!ctx.isReplaying) runs.push(ctx.instanceId);
});

/** Loses the response of each first start, after `meanwhile`. */
function losingStarts(meanwhile: () => Promise<unknown>): (provider: Provider) => Provider {
  return (provider) => ({
    ...provider,
    async createInstances(instances) {
      const results = await provider.createInstances(instances);
      if (instances.some(({ isRepeat }) => isRepeat)) return results;
      await meanwhile();
      throw new ProviderError({
        operation: 'createInstances',
        message: 'The response was lost.',
        retryable: true,
        outcomeUnknown: true,
      });
    },
  });
}

const deletions: readonly (readonly [string, (client: Client) => Promise<unknown>])[] = [
  ['deleteInstance()', (client) => client.deleteInstance('one')],
  ['deleteInstance() with force', (client) => client.deleteInstance('one', { force: true })],
  ['deleteInstanceBulk()', (client) => client.deleteInstanceBulk({ name: 'counted' })],
  ['bulk.delete()', (client) => client.bulk.delete({ name: 'counted' })],
  ['retention', (client) => client.retention.run({ policies: [{ keepFor: 0 }] })],
];

describeManaged('a repeated start', ({ openManaged }) => {
  test.for(deletions)('does not run an instance again after %s', async ([, remove]) => {
    runs = [];
    const meanwhile = Promise.withResolvers<() => Promise<unknown>>();
    const wrap = losingStarts(async () => (await meanwhile.promise)());
    const { client, clock } = await openManaged({ orchestrations: [counted] }, wrap);
    meanwhile.resolve(async () => {
      await clock.advance(10);
      await remove(client);
      expect(await client.get('one')).toBeUndefined();
    });
    const handle = await client.start(counted, undefined, { id: 'one' });
    await clock.advance(1_000);
    expect(runs).toEqual(['one']);
    await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_NOT_FOUND' });
    expect(await client.get('one')).toBeUndefined();
  });

  test('finds an instance that was not deleted', async () => {
    runs = [];
    const wrap = losingStarts(async () => undefined);
    const { client, clock } = await openManaged({ orchestrations: [counted] }, wrap);
    const handle = await client.start(counted, undefined, { id: 'one' });
    await clock.advance(1_000);
    await handle.result();
    expect(runs).toEqual(['one']);
  });

  test('raises its event once at an instance that exists', async () => {
    const received: string[] = [];
    const listening = orchestration('listening', async (ctx) => {
      for (let count = 0; count < 2; count += 1) received.push(await ctx.waitFor(said));
    });
    const wrap = losingStarts(async () => undefined);
    const { client, clock } = await openManaged({ orchestrations: [listening] }, wrap);
    const options = (payload: string) => ({ id: 'one', event: { token: said, payload } });
    await client.start(listening, undefined, options('first'));
    await clock.advance(1_000);
    await client.start(listening, undefined, options('second'));
    await clock.advance(1_000);
    expect(received).toEqual(['first', 'second']);
    expect((await client.get('one'))?.status).toBe('completed');
  });
});
