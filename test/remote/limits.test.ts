import { expect, test } from 'vitest';
import { activity, orchestration, task } from 'perdure';
import { flow } from 'perdure/flows';
import { describeRemote } from './describe-remote.ts';

const echo = activity('echo', (_ctx, input: string) => input, { concurrency: { perKey: 1 } });
const sync = task('sync', (_ctx, input: string) => input, { concurrency: { global: 2 } });
const steps = flow('steps')
  .input<{ readonly tenant: string }>()
  .step('one', { key: ({ input }) => input.tenant, weight: 2 }, (_ctx, { input }) => input.tenant)
  .output();
const calls = orchestration('calls', async (ctx, tenant: string) => [
  await ctx.call(echo, 'called', { key: tenant, weight: 3 }),
  await ctx.runTask(sync, 'ran', { key: tenant }),
]);
const held = orchestration('held', (ctx) => ctx.waitFor('end'), { concurrency: { perKey: 1 } });
const heldFlow = flow('heldFlow', { concurrency: { perKey: 1 } })
  .step('one', (ctx) => ctx.canceled())
  .output();

describeRemote('limits of a remote client', (open) => {
  test('reads, sets, resets and lists keys', async () => {
    const { client } = await open({ tasks: [sync] });
    expect(await client.limits.get('nothing')).toBeUndefined();
    const { items } = await client.limits.list();
    expect(items).toMatchObject([{ kind: 'task', name: 'sync', effective: { global: 2 } }]);
    const change = { concurrency: { perKey: 1 }, rate: { limit: 5, per: '1s', burst: 2 } };
    const by = { reason: 'late' };
    const rate = { limit: 5, perMs: 1_000, burst: 2, perKey: false };
    expect(await client.limits.set(sync, change, by)).toMatchObject({
      effective: { global: 2, perKey: 1, rate },
    });
    expect(
      await client.limits.set(sync, { concurrency: { global: null }, rate: null }),
    ).toMatchObject({
      effective: { perKey: 1 },
      override: { global: null, perKey: 1, rate: null },
    });
    expect((await client.limits.reset('sync')).effective).toEqual({ global: 2 });
    await client.runTask('parked', 1, { key: 'acme', weight: 4 });
    expect(await client.limits.keys('parked')).toMatchObject({
      items: [{ key: 'acme', weight: 4, running: 0, waiting: 1 }],
    });
    await expect(client.limits.set('nothing', change)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
    const audit = await client.listAudit({ action: 'limitsSet' });
    expect(audit.items.map(({ actor, reason }) => [actor, reason])).toEqual([
      ['tester', null],
      ['tester', 'late'],
    ]);
  });

  test('passes keys and weights of tasks, jobs, schedules, calls and steps', async () => {
    const worker = { tasks: [sync], orchestrations: [calls], activities: [echo], flows: [steps] };
    const { client, perdure } = await open(worker);
    const keysOf = async (target: Parameters<typeof client.limits.keys>[0]) =>
      (await client.limits.keys(target)).items.map(({ key, weight }) => [key, weight]);
    await client.runTask('parked', 1, { key: 'run' });
    client.submit('parked', 1, { kind: 'task', key: 'job', weight: 2 });
    await client.schedules.put('nightly', {
      task: 'parked',
      every: '1d',
      options: { key: 'tick', weight: 5 },
    });
    await client.schedules.trigger('nightly');
    await expect
      .poll(async () => (await keysOf('parked')).map(String).toSorted())
      .toEqual(['job,2', 'run,1', 'tick,5']);
    const run = await client.start(calls, 'acme', { key: 'acme' });
    expect(await run.result()).toEqual(['called', 'ran']);
    const items = (await perdure.client.history(run.id)).items.map(({ event }) => event);
    expect(items.filter(({ kind }) => kind === 'activityScheduled')).toMatchObject([
      { name: 'echo', options: { lane: { key: 'acme', weight: 3 } } },
      { name: 'task:sync', options: { lane: { key: 'acme', weight: 1 } } },
    ]);
    const flowRun = await client.runFlow(steps, { tenant: 'globex' });
    expect(await flowRun.result()).toBe('globex');
    const step = (await perdure.client.history(flowRun.id)).items
      .map(({ event }) => event)
      .find(({ kind }) => kind === 'activityScheduled');
    expect(step).toMatchObject({ options: { lane: { key: 'globex', weight: 2 } } });
  });

  test('passes the key and weight of start() and runFlow()', async () => {
    const { client, perdure } = await open({ orchestrations: [held], flows: [heldFlow] });
    const keysOf = async (name: string) =>
      (await perdure.client.limits.keys({ kind: 'orchestration', name })).items;
    for (const [key, weight] of [
      ['acme', 2],
      ['acme', 2],
      ['globex', undefined],
    ] as const) {
      await client.start(held, undefined, { key, weight });
      await client.runFlow(heldFlow, undefined, { key, weight });
    }
    for (const name of ['held', 'heldFlow']) {
      await expect
        .poll(async () =>
          (await keysOf(name)).map(({ key, weight, running, waiting }) =>
            [key, weight, running, waiting].join(' '),
          ),
        )
        .toEqual(['acme 2 1 1', 'globex 1 1 0']);
    }
  });

  test.each([
    ['', /key/],
    ['x'.repeat(10_240), /key/],
    ['a\u0000b', /control character/],
    ['\uD800', /surrogate pair/],
    ["O'Brien", /quote/],
  ])(
    'rejects an invalid key over HTTP, before anything is stored (case %#)',
    async (key, message) => {
      const { client, server, token } = await open();
      await expect(client.runTask('parked', 1, { key })).rejects.toMatchObject({
        code: 'INVALID_OPTION',
      });
      const response = await fetch(`${server.url}/v1/tasks`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify({ task: 'parked', key }),
      });
      expect(response.status).toBe(400);
      expect(await response.text()).toMatch(message);
      const started = await fetch(`${server.url}/v1/instances`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify({ name: 'parked', key }),
      });
      expect(started.status).toBe(400);
      expect(await started.text()).toMatch(message);
      expect((await client.list()).items).toEqual([]);
    },
  );
});
