import { expect, test } from 'vitest';
import * as z from 'zod';
import {
  activity,
  event,
  FailedError,
  orchestration,
  task,
  type PerdureError,
} from '../../src/index.ts';
import { describeRemote } from './describe-remote.ts';

const greet = activity('greet', (_ctx, name: string) => Promise.resolve(`Hello, ${name}!`));
const hello = orchestration('hello', (ctx, name: string) => ctx.call(greet, name));
const answer = event<number>('answer');
const checked = event('checked', { schema: z.object({ by: z.string() }) });
const checking = orchestration('checking', async (ctx) => {
  const refused = await ctx.waitFor(checked).catch((error: PerdureError) => error);
  const { code, message } = refused as PerdureError;
  return [code, message, await ctx.waitFor(checked)];
});
const asking = orchestration('asking', (ctx) => ctx.waitFor(answer));
const failing = orchestration('failing', () => {
  throw Object.assign(new TypeError('no such order'), { code: 'E_ORDER', details: { id: 7 } });
});
const double = task('double', (_ctx, number: number) => Promise.resolve(number * 2));

const definitions = {
  orchestrations: [hello, asking, failing],
  activities: [greet],
  tasks: [double],
};

describeRemote('a remote client', (open) => {
  test('a remote client starts an instance and returns its result', async () => {
    const { client } = await open(definitions);
    const handle = await client.start(hello, 'World', { id: 'hello-1' });
    expect(handle.id).toBe('hello-1');
    expect(await handle.result()).toBe('Hello, World!');
    expect(await handle.status()).toMatchObject({ status: 'completed', output: 'Hello, World!' });
  });

  test('list(), count() and definitions() over HTTP filter by tags, names and failures', async () => {
    const { client } = await open(definitions);
    const tags = { tenant: '7', url: 'a=b&c' };
    await (await client.start(hello, 'World', { id: 'h', tags })).result();
    const failed = await client.start(failing, undefined, { id: 'f', tags: { tenant: '7' } });
    await expect(failed.result()).rejects.toThrow('no such order');
    const run = await client.runTask(double, 2, { id: 'd', tags: { tenant: '8' } });
    await run.result();
    const ids = async (filter: Parameters<typeof client.list>[0]) =>
      (await client.list(filter)).items.map(({ id }) => id);
    expect((await client.get('h'))?.tags).toEqual(tags);
    expect(await ids({ tags: { tenant: '7' } })).toEqual(['f', 'h']);
    expect(await ids({ tags })).toEqual(['h']);
    expect(await ids({ name: ['hello', 'double'] })).toEqual(['d', 'h']);
    expect(await ids({ failureCode: 'E_ORDER', failureText: 'SUCH order' })).toEqual(['f']);
    expect(await ids({ endedFrom: '1h', rootsOnly: true, version: hello.version })).toEqual([
      'f',
      'h',
    ]);
    expect(await ids({ endedBefore: '1h' })).toEqual([]);
    expect(await client.count({ tags: { tenant: '7' } })).toEqual({ count: 2, capped: false });
    expect(await client.count({}, { cap: 2 })).toEqual({ count: 2, capped: true });
    const one = { count: 1, capped: false };
    expect(await client.definitions()).toEqual(
      expect.arrayContaining([
        { kind: 'task', name: 'double', counts: { completed: one } },
        expect.objectContaining({
          kind: 'orchestration',
          name: 'failing',
          counts: { failed: one },
        }),
      ]),
    );
    await expect(client.count({}, { cap: 0 })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await expect(client.list({ tags: { a: '' } })).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    });
    expect(await client.deleteInstanceBulk({ tags: { tenant: '8' } })).toMatchObject({
      instancesDeleted: 1,
    });
    expect(await ids({})).toEqual(['f', 'h']);
  });

  test('running(), get() and history() over HTTP return the same pending work as locally', async () => {
    const flaky = activity(
      'flaky',
      async (ctx) => {
        ctx.heartbeat({ row: 7 });
        throw new Error('503 from the bank');
      },
      { retry: { maxAttempts: 3, initialDelay: '1h' } },
    );
    const begun = Promise.withResolvers<void>();
    const hold = activity('hold', async (ctx) => {
      begun.resolve();
      await ctx.canceled();
    });
    const busy = orchestration('busy', (ctx) =>
      Promise.all([ctx.call(flaky), ctx.call(hold), ctx.call('nobodyHasIt')]),
    );
    const { client, perdure } = await open({ orchestrations: [busy], activities: [flaky, hold] });
    const handle = await client.start(busy);
    await begun.promise;
    await expect
      .poll(() => client.running(handle.id), { timeout: 20_000 })
      .toMatchObject([
        { state: 'retrying', attempt: 2, lastFailure: { message: '503 from the bank' } },
        { state: 'running', attempt: 1 },
        { state: 'queued', attempt: 1 },
      ]);
    const local = perdure.client;
    expect(await client.running(handle.id)).toEqual(await local.running(handle.id));
    expect((await client.get(handle.id))?.pending).toEqual((await local.get(handle.id))?.pending);
    const { pending } = await client.history(handle.id);
    expect(pending).toEqual((await local.history(handle.id)).pending);
    await handle.cancel();
  });

  test('result() over HTTP rejects with the same FailedError as locally', async () => {
    const { client, perdure } = await open(definitions);
    const handle = await client.start(failing);
    const remote = await handle.result().catch((error: unknown) => error);
    const local = await perdure.client
      .handle(handle.id)
      .result()
      .catch((error: unknown) => error);
    expect(remote).toBeInstanceOf(FailedError);
    expect((remote as FailedError).message).toBe((local as FailedError).message);
    expect((remote as FailedError).failure).toMatchObject({
      name: 'TypeError',
      code: 'E_ORDER',
      details: { id: 7 },
    });
    expect((remote as FailedError).cause).toMatchObject({ message: 'no such order' });
  });

  test('runTask() and runTasks() over HTTP run tasks and deduplicate by id', async () => {
    const { client } = await open(definitions);
    const one = await client.runTask(double, 21);
    expect(one.created).toBe(true);
    expect(await one.result()).toBe(42);
    const handles = await client.runTasks([
      { task: double, input: 1 },
      { task: double, input: 2, options: { id: 'two' } },
    ]);
    expect(await Promise.all(handles.map((handle) => handle.result()))).toEqual([2, 4]);
    const again = await client.runTask(double, 2, { id: 'two' });
    expect(again.created).toBe(false);
  });

  test('an invalid event payload raised over HTTP rejects waitFor() with its path', async () => {
    const { client, server, token } = await open({ orchestrations: [checking] });
    const handle = await client.start(checking, undefined, { id: 'checking-1' });
    await expect(handle.raiseEvent(checked, { by: 5 } as never)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
    const response = await fetch(`${server.url}/v1/instances/checking-1/events`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'checked', payload: { by: 5 } }),
    });
    expect(response.status).toBeLessThan(300);
    await handle.raiseEvent(checked, { by: 'Mia' });
    expect(await handle.result()).toEqual([
      'INVALID_INPUT',
      expect.stringContaining('by: '),
      { by: 'Mia' },
    ]);
  });

  test('bulk delete and prune over HTTP without a filter require all: true', async () => {
    const { client } = await open(definitions);
    await (await client.start(hello, 'x')).result();
    const refused = { code: 'INVALID_OPTION' };
    await expect(client.deleteInstanceBulk()).rejects.toMatchObject(refused);
    await expect(client.deleteInstanceBulk({ limit: 5 })).rejects.toMatchObject(refused);
    await expect(client.pruneExecutionsBulk()).rejects.toMatchObject(refused);
    expect(await client.pruneExecutionsBulk({}, { all: true })).toMatchObject({
      executionsDeleted: 0,
    });
    expect(await client.deleteInstanceBulk({}, { all: true })).toMatchObject({
      instancesDeleted: 1,
    });
  });

  test('events and results of 50 instances are delivered over HTTP', async () => {
    const { client } = await open(definitions);
    const handles = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        client.start(asking, undefined, { id: `ask-${index}` }),
      ),
    );
    const results = Promise.all(handles.map((handle) => handle.result()));
    for (const [index, handle] of handles.entries()) await handle.raiseEvent(answer, index);
    expect(await results).toEqual(handles.map((_, index) => index));
  });
});
