import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { orchestration, Perdure, silentLogger, task, type Client } from '../../src/index.ts';
import { isGeneratedKey } from '../../src/model/event-key.ts';
import { ProviderError } from '../../src/model/failures/errors.ts';
import type { NewInstance } from '../../src/providers/contract/instances.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';

const collect = orchestration('collect', async (ctx) => {
  const words: unknown[] = [];
  for (let word = await ctx.waitFor('say'); word !== 'stop'; word = await ctx.waitFor('say'))
    words.push(word);
  return words;
});
const double = task('double', (_ctx, number: number) => Promise.resolve(number * 2));

type Write = 'createInstances' | 'createTasks' | 'enqueueMessages' | 'requestCancel' | 'terminate';

/** Loses the outcome of the next call of a method, before or after its commit. */
async function open(method: Write, when: 'before' | 'after', meanwhile?: () => Promise<unknown>) {
  const provider = await openSqlite({ path: ':memory:' });
  const state = { calls: 0, isArmed: false };
  const sent: (readonly (readonly unknown[])[])[] = [];
  const write = provider[method] as (...args: unknown[]) => Promise<unknown>;
  const unsure: Provider = Object.assign(Object.create(provider) as Provider, {
    async [method](...args: (readonly unknown[])[]) {
      sent.push(args);
      if (!state.isArmed) return write.apply(provider, args);
      state.calls += 1;
      if (state.calls > 1) return write.apply(provider, args);
      if (when === 'after') await write.apply(provider, args);
      await meanwhile?.();
      throw new ProviderError({
        operation: method,
        message: 'The connection was lost.',
        retryable: true,
        outcomeUnknown: true,
      });
    },
  });
  const perdure = await Perdure.open(unsure, { logger: silentLogger });
  onTestFinished(() => perdure.close());
  return { client: perdure.client as Client, perdure, provider, state, sent };
}

describe.each(['before', 'after'] as const)('an outcome lost %s the commit', (when) => {
  it('start() creates one instance and returns created: true', async () => {
    const { client, perdure, state } = await open('createInstances', when);
    state.isArmed = true;
    const handle = await client.start(collect, undefined, { id: 'one' });
    expect([handle.id, handle.created, state.calls]).toEqual(['one', true, 2]);
    expect((await client.start(collect, undefined, { id: 'one' })).created).toBe(false);
    await perdure.startWorker({ orchestrations: [collect] });
    await handle.raiseEvent('say', 'stop');
    expect(await handle.result()).toEqual([]);
  });

  it('start() with an event raises it once, with a key that the store deletes after a day', async () => {
    const { client, perdure, state, sent } = await open('createInstances', when);
    const event = (payload: string) => ({ id: 'one', event: { token: 'say', payload } });
    await client.start(collect, undefined, event('first'));
    state.isArmed = true;
    const handle = await client.start(collect, undefined, event('second'));
    expect(state.calls).toBe(2);
    const keys = sent.map(([instances]) => (instances?.[0] as NewInstance | undefined)?.event?.key);
    expect(new Set(keys.map((key) => key !== undefined && isGeneratedKey(key)))).toEqual(
      new Set([true]),
    );
    await handle.raiseEvent('say', 'stop');
    await perdure.startWorker({ orchestrations: [collect] });
    expect(await handle.result()).toEqual(['first', 'second']);
  });

  it('runTask() creates one run and returns created: true', async () => {
    const { client, perdure, state } = await open('createTasks', when);
    state.isArmed = true;
    const run = await client.runTask(double, 4, { dedupeKey: 'k' });
    expect([run.created, state.calls]).toEqual([true, 2]);
    const again = await client.runTask(double, 4, { dedupeKey: 'k' });
    expect([again.id, again.created]).toEqual([run.id, false]);
    await perdure.startWorker({ tasks: [double] });
    expect(await run.result()).toBe(8);
    expect((await client.list()).items).toHaveLength(1);
  });

  it('runTasks() creates each run once', async () => {
    const { client, state } = await open('createTasks', when);
    await client.runTask(double, 0, { id: 'known' });
    state.isArmed = true;
    const runs = await client.runTasks([
      { task: double, input: 1 },
      { task: double, input: 0, options: { id: 'known' } },
      { task: double, input: 2 },
    ]);
    expect(runs.map(({ created }) => created)).toEqual([true, false, true]);
    expect((await client.list()).items).toHaveLength(3);
  });

  it('raiseEvent() raises one event', async () => {
    const { client, perdure, state } = await open('enqueueMessages', when);
    const handle = await client.start(collect);
    state.isArmed = true;
    await handle.raiseEvent('say', 'once');
    expect(state.calls).toBe(2);
    await handle.raiseEvent('say', 'twice');
    await handle.raiseEvent('say', 'twice');
    await handle.raiseEvent('say', 'stop');
    await perdure.startWorker({ orchestrations: [collect] });
    expect(await handle.result()).toEqual(['once', 'twice', 'twice']);
  });

  it.each(['cancel', 'terminate'] as const)('%s() returns changed: true', async (how) => {
    const { client, state } = await open(how === 'cancel' ? 'requestCancel' : how, when);
    const handle = await client.start(collect);
    state.isArmed = true;
    const status = how === 'cancel' ? 'canceled' : 'terminated';
    expect(await handle[how]({ reason: 'enough' })).toEqual({ found: true, changed: true, status });
    expect(state.calls).toBe(2);
    expect(await handle[how]()).toMatchObject({ changed: false });
    const audited = await handle[how]({ actor: 'ann' });
    expect(audited.changed).toBe(false);
  });
});

it('runTasks() whose outcome is lost reads its runs in batches', async () => {
  const { client, provider, state } = await open('createTasks', 'after');
  const read = vi.spyOn(provider, 'getInstances');
  state.isArmed = true;
  const requests = Array.from({ length: 1_200 }, (_, input) => ({ task: double, input }));
  const runs = await client.runTasks(requests);
  expect(new Set(runs.map(({ created }) => created))).toEqual(new Set([true]));
  expect(new Set(runs.map(({ id }) => id)).size).toBe(1_200);
  expect(read).toHaveBeenCalledTimes(3);
});

it('cancel() whose outcome is lost spares a retried, replaced or recreated run', async () => {
  for (const next of ['retry', 'replace', 'recreate'] as const) {
    let renew = async (): Promise<unknown> => undefined;
    const { client, state } = await open('requestCancel', 'after', () => renew());
    const start = () => client.start(collect, undefined, { id: 'one' });
    await start();
    renew = async () => {
      if (next === 'retry') return client.retry('one', { from: 'start', input: 'again' });
      if (next === 'replace') {
        const settings = { id: 'one', onConflict: 'terminateExisting' } as const;
        return client.start('collect', 'other', settings);
      }
      await client.deleteInstance('one');
      return start();
    };
    state.isArmed = true;
    expect(await client.cancel('one')).toMatchObject({ found: true, changed: true });
    expect(state.calls).toBe(2);
    expect(['pending', 'running']).toContain((await client.get('one'))?.status);
  }
});

it('raiseEvent() whose outcome is lost does not reach the run that replaced its receiver', async () => {
  let replace = async (): Promise<unknown> => undefined;
  const { client, perdure, state } = await open('enqueueMessages', 'after', () => replace());
  await client.start(collect, undefined, { id: 'one' });
  replace = () => client.start('collect', 'new', { id: 'one', onConflict: 'terminateExisting' });
  state.isArmed = true;
  await client.raiseEvent('one', 'say', 'to the old run');
  expect(state.calls).toBe(2);
  await client.raiseEvent('one', 'say', 'stop');
  await perdure.startWorker({ orchestrations: [collect] });
  expect(await client.handle('one').result()).toEqual([]);
});

it('a call whose outcome is lost twice rejects with outcomeUnknown', async () => {
  const { client, provider } = await open('terminate', 'after');
  const lost = new ProviderError({
    operation: 'requestCancel',
    message: 'The connection was lost.',
    retryable: true,
    outcomeUnknown: true,
  });
  const unsure = Object.assign(Object.create(provider) as Provider, {
    requestCancel: () => Promise.reject(lost),
  });
  const perdure = await Perdure.open(unsure, { logger: silentLogger });
  const { id } = await client.start(collect);
  await expect(perdure.client.cancel(id)).rejects.toMatchObject({ outcomeUnknown: true });
});

it('cancel() and terminate() with the key of an earlier call change nothing', async () => {
  const { client } = await open('terminate', 'after');
  await client.start(collect, undefined, { id: 'one' });
  const changed = { found: true, changed: true };
  expect(await client.cancel('one', { key: 'k' })).toMatchObject(changed);
  await client.retry('one', { from: 'start', input: 'again' });
  expect(await client.cancel('one', { key: 'k' })).toMatchObject(changed);
  expect((await client.get('one'))?.status).not.toBe('canceled');
  // A termination is another request, also with the key of a cancel.
  expect(await client.terminate('one', { key: 'k' })).toMatchObject(changed);
  expect((await client.get('one'))?.status).toBe('terminated');
  await expect(client.cancel('one', { key: '' })).rejects.toMatchObject({ code: 'INVALID_NAME' });
  await expect(client.terminate('one', { key: 7 as never })).rejects.toMatchObject({
    code: 'INVALID_NAME',
  });
});
