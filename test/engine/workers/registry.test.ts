import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { FakeClock } from '../../../src/testing/fake-clock.ts';
import { Perdure } from '../../../src/perdure.ts';
import { activity } from '../../../src/orchestration/activity.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { silentLogger } from '../../../src/model/logger.ts';
import { newWorker } from '../../../src/testing/conformance/sample-data.ts';
import { task } from '../../../src/tasks/task.ts';
import { engineStores } from '../engine-store.ts';

const ship = activity('ship', async () => 'shipped');
const order = orchestration('order', async (ctx) => ctx.call(ship), { version: '2' });
const mail = task('mail', async () => 'sent');
const logger = silentLogger;

describe.each(['SQLite', 'PostgreSQL'] as const)('registry of workers (%s)', (kind) => {
  const newStore = engineStores(kind);

  async function open(clock?: FakeClock) {
    const store = await newStore();
    onTestFinished(() => store.remove());
    const options = clock === undefined ? {} : { clock };
    const openPerdure = async () => {
      const provider = await store.open(options);
      const perdure = await Perdure.open(provider, { ...options, logger });
      onTestFinished(() => perdure.close());
      return { perdure, provider, client: perdure.client };
    };
    return { ...(await openPerdure()), openPerdure };
  }

  const listed = (perdure: Perdure, count: number) =>
    vi.waitFor(async () => {
      const workers = await perdure.client.workers();
      expect(workers).toHaveLength(count);
      return workers;
    });

  it('workers() returns a started worker with its definitions, slots and status', async () => {
    const { perdure } = await open();
    await perdure.startWorker({
      name: 'mailer',
      buildId: 'build-7',
      orchestrations: [order],
      activities: [ship],
      tasks: [mail],
      activityConcurrency: 7,
    });
    const [worker] = await listed(perdure, 1);
    expect(worker).toMatchObject({
      name: 'mailer',
      status: 'live',
      pid: process.pid,
      buildId: 'build-7',
      orchestrations: [{ name: 'order', version: '2' }],
      activities: ['ship'],
      tasks: ['mail'],
      slots: { activities: 7, orchestrations: 256, inUse: 0 },
      leaked: 0,
      heartbeatMs: 10_000,
    });
    expect(worker?.ageMs).toBeLessThan(30_000);
    expect(Math.abs((worker?.startedAt ?? 0) - Date.now())).toBeLessThan(60_000);
  });

  it('two workers of one process with the same name have one process, and stop() removes one', async () => {
    const { perdure, openPerdure } = await open();
    const [first] = [await perdure.startWorker({ name: 'same', tasks: [mail] })];
    await perdure.startWorker({ name: 'same', tasks: [mail] });
    const { perdure: other } = await openPerdure();
    await other.startWorker({ name: 'same', tasks: [mail] });
    const workers = await listed(perdure, 3);
    expect(new Set(workers.map(({ id }) => id)).size).toBe(3);
    expect(new Set(workers.map(({ processId }) => processId)).size).toBe(2);
    await first?.stop();
    expect(await perdure.client.workers()).toHaveLength(2);
    await other.close();
    expect(await perdure.client.workers()).toHaveLength(1);
  });

  it('names of workers and definitions with any characters are listed unchanged', async () => {
    const { perdure } = await open();
    const hostile = '<script>alert(1)</script>; DROP TABLE workers; -- {} \u202e \u{1f4be}';
    await perdure.startWorker({ name: hostile, tasks: [task(hostile, async () => undefined)] });
    const [worker] = await listed(perdure, 1);
    expect([worker?.name, worker?.tasks]).toEqual([hostile, [hostile]]);
  });

  it('slots in use and leaked handlers are those of the last heartbeat', async () => {
    const { perdure, client } = await open();
    let finish: (() => void) | undefined;
    const stubborn = task('stubborn', () => new Promise<void>((resolve) => (finish = resolve)));
    await perdure.startWorker({ tasks: [stubborn], heartbeat: 100, cancelGrace: 10 });
    const handle = await client.runTask(stubborn);
    const numbers = async () => {
      const [worker] = await client.workers();
      return [worker?.slots.inUse, worker?.leaked];
    };
    await vi.waitFor(async () => expect(await numbers()).toEqual([1, 0]), 10_000);
    await handle.cancel();
    await vi.waitFor(async () => expect(await numbers()).toEqual([0, 1]), 10_000);
    finish?.();
    await vi.waitFor(async () => expect(await numbers()).toEqual([0, 0]), 10_000);
  });

  it('workers() lists live workers first, at most 1,000, and omits definitions above 8 MiB', async () => {
    const { client, provider } = await open();
    const activities = Array.from({ length: 1_000 }, (_, index) => `${index}`.padStart(100, 'x'));
    const many = Array.from({ length: 200 }, (_, index) => newWorker(`w${index}`, { activities }));
    await provider.registerWorkers(many);
    const workers = await client.workers();
    expect(workers).toHaveLength(200);
    expect(JSON.stringify(workers).length).toBeLessThan(9 * 1024 * 1024);
    expect(workers.filter(({ definitionsOmitted }) => definitionsOmitted).length).toBeGreaterThan(
      100,
    );
    await provider.registerWorkers(
      Array.from({ length: 900 }, (_, index) => newWorker(`more${index}`)),
    );
    expect(await client.workers()).toHaveLength(1_000);
  });

  it('unclaimedWork() lists due work until a live worker has its code', async () => {
    const clock = new FakeClock();
    const { client, provider } = await open(clock);
    await client.start('order', undefined, { version: '1' });
    await client.runTask('mail');
    await clock.advance(9_999);
    expect(await client.unclaimedWork()).toEqual([]);
    await clock.advance(1);
    const orders = { kind: 'orchestration', name: 'order', version: '1', dueForMs: 10_000 };
    const mails = { kind: 'task', name: 'mail', dueForMs: 10_000 };
    expect(await client.unclaimedWork()).toEqual(expect.arrayContaining([orders, mails]));
    const orchestrations = [{ name: 'order', version: '2' }];
    await provider.registerWorkers([newWorker('w', { orchestrations, tasks: ['mail'] })]);
    expect(await client.unclaimedWork()).toEqual([orders]);
    await clock.advance(30_001);
    expect(await client.workers()).toMatchObject([{ id: 'w', status: 'stale', ageMs: 30_001 }]);
    expect(await client.unclaimedWork()).toHaveLength(2);
  });

  it('startWorker() rejects an invalid heartbeat', async () => {
    const { perdure } = await open();
    for (const heartbeat of [99, 3_600_001]) {
      await expect(perdure.startWorker({ tasks: [mail], heartbeat })).rejects.toMatchObject({
        code: 'INVALID_OPTION',
      });
    }
  });
});
