import { expect, test } from 'vitest';
import { orchestration, task, type Provider } from '../../src/index.ts';
import type { RemoteClient } from '../../src/remote/connection.ts';
import { describeRemote } from './describe-remote.ts';

const quick = orchestration('quick', async () => 'done');
const double = task('double', (_ctx, number: number) => Promise.resolve(number * 2));
const definitions = { orchestrations: [quick], tasks: [double] };

type Start =
  | 'createInstances'
  | 'createTasks'
  | 'submitJobs'
  | 'forkInstances'
  | 'startScheduledRuns';

interface Calls {
  /** How often the store was asked to start something. */
  count: number;
}

/** Deletes what the first call of a method has started, before its caller gets the response. */
function deleteStarted(method: Start, calls: Calls): (provider: Provider) => Provider {
  return (provider) => {
    const start = provider[method] as (...args: unknown[]) => Promise<unknown>;
    return {
      ...provider,
      async [method](...args: unknown[]) {
        const result = await start(...args);
        calls.count += 1;
        if (calls.count === 1) {
          const { instances } = await provider.listInstances({ filter: {}, limit: 100 });
          const trees = instances
            .filter(({ instanceId }) => instanceId !== 'source')
            .map(({ instanceId }) => ({ instanceIds: [instanceId], force: true }));
          await provider.deleteInstancesAtomic(trees);
        }
        return result;
      },
    };
  };
}

interface Repeated {
  readonly title: string;
  readonly method: Start;
  readonly path: string;
  readonly prepare?: (client: RemoteClient) => Promise<unknown>;
  readonly start: (client: RemoteClient) => Promise<unknown>;
}

const put = (client: RemoteClient) =>
  client.schedules.put('s', { cron: '0 3 * * *', task: double, input: 4 });
const day = { from: Date.UTC(2020, 0, 1), to: Date.UTC(2020, 0, 1, 23) };

const repeated: readonly Repeated[] = [
  {
    title: 'start()',
    method: 'createInstances',
    path: '/v1/instances ',
    start: (client) => client.start(quick, undefined, { id: 'one' }),
  },
  {
    title: 'start() with terminateExisting',
    method: 'createInstances',
    path: '/v1/instances ',
    start: (client) =>
      client.start(quick, undefined, { id: 'one', onConflict: 'terminateExisting' }),
  },
  {
    title: 'runTask()',
    method: 'createTasks',
    path: '/v1/tasks ',
    start: (client) => client.runTask(double, 4, { id: 'one' }),
  },
  {
    title: 'runTasks()',
    method: 'createTasks',
    path: '/v1/tasks/batch',
    start: (client) =>
      client.runTasks([
        { task: double, input: 4 },
        { task: double, input: 5 },
      ]),
  },
  {
    title: 'submit()',
    method: 'submitJobs',
    path: '/v1/sessions/',
    start: async (client) => {
      const reply = client.submit(double, 4).result();
      await expect(reply).rejects.toMatchObject({ code: 'INSTANCE_NOT_FOUND' });
    },
  },
  {
    title: 'fork()',
    method: 'forkInstances',
    path: '/v1/instances/source/fork',
    prepare: async (client) => (await client.start(quick, undefined, { id: 'source' })).result(),
    start: (client) => client.fork('source', { from: 'start' }),
  },
  {
    title: 'schedules.trigger()',
    method: 'startScheduledRuns',
    path: '/v1/schedules/s/trigger',
    prepare: put,
    start: (client) => client.schedules.trigger('s', { key: 'k' }),
  },
  {
    title: 'schedules.backfill()',
    method: 'startScheduledRuns',
    path: '/v1/schedules/s/backfill',
    prepare: put,
    start: async (client) =>
      expect(await client.schedules.backfill('s', day)).toEqual({ started: 0, existing: 1 }),
  },
];

describeRemote('a repeated start of a deleted instance', (open) => {
  test.for(repeated)('$title starts nothing', async ({ method, path, prepare, start }) => {
    const calls = { count: 0 };
    const wrap = deleteStarted(method, calls);
    const { client, proxy } = await open(definitions, { wrap });
    await prepare?.(client);
    let lost = 0;
    proxy.intercept((bytes) => {
      const text = bytes.toString('latin1');
      // The session of a job is opened by another request.
      const isStart =
        text.startsWith(`POST ${path}`) && (method !== 'submitJobs' || /\/jobs /.test(text));
      if (lost > 0 || !isStart) return 'pass';
      lost += 1;
      return 'cutAnswer';
    });
    await start(client);
    expect([lost, calls.count]).toEqual([1, 2]);
    const { items } = await client.list();
    expect(items.filter(({ id }) => id !== 'source')).toEqual([]);
  });

  test('start() by the caller creates an instance with the id of a deleted one', async () => {
    const { client } = await open(definitions, {
      wrap: deleteStarted('createInstances', { count: 0 }),
    });
    await client.start(quick, undefined, { id: 'one' });
    const again = await client.start(quick, undefined, { id: 'one' });
    expect(await again.result()).toBe('done');
  });
});
