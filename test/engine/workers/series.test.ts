import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { silentLogger } from '../../../src/model/logger.ts';
import { activity } from '../../../src/orchestration/activity.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { Perdure } from '../../../src/perdure.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import { noCounts } from '../../../src/providers/rules/series.ts';
import { task } from '../../../src/tasks/task.ts';
import { FakeClock } from '../../../src/testing/fake-clock.ts';
import { testOptions } from 'perdure/testing';
import { engineStores } from '../engine-store.ts';

const logger = silentLogger;
const minuteMs = 60_000;
const ship = activity('ship', async () => 'shipped');
const order = orchestration('order', async (ctx) => ctx.call(ship));
const slow = orchestration('slow', async (ctx) => ctx.sleep('90s'));
const broken = orchestration('broken', async () => {
  throw new Error('no stock');
});
const mail = task('mail', async () => 'sent');
const definitions = {
  orchestrations: [order, slow, broken],
  activities: [ship],
  tasks: [mail],
};

describe.each(['SQLite', 'PostgreSQL'] as const)('minute series (%s)', (kind) => {
  const newStore = engineStores(kind);

  async function open(wrap: (provider: Provider) => Provider = (provider) => provider) {
    const clock = new FakeClock();
    const store = await newStore();
    onTestFinished(() => store.remove());
    const openPerdure = async () => {
      const perdure = await Perdure.open(wrap(await store.open({ clock })), { clock, logger });
      onTestFinished(() => perdure.close());
      return perdure;
    };
    const perdure = await openPerdure();
    return { clock, perdure, client: perdure.client, openPerdure };
  }

  it('counts starts, ends and attempts by name and in total, on every path', async () => {
    const { perdure, client } = await open();
    for (const fastPaths of [true, false]) {
      const worker = await perdure.startWorker({ ...definitions, ...testOptions({ fastPaths }) });
      await (await client.start(order)).result();
      await expect((await client.start(broken)).result()).rejects.toThrow('no stock');
      await (await client.runTask(mail)).result();
      await worker.stop();
    }
    const one = async (name?: string) => {
      const [minute, ...others] = await client.series({ name });
      expect(others).toEqual([]);
      return minute;
    };
    expect(await one('order')).toMatchObject({
      starts: 2,
      ends: { completed: 2 },
      instances: { count: 2 },
      attempts: { count: 0, buckets: [] },
    });
    expect(await one('broken')).toMatchObject({ starts: 2, ends: { failed: 2 } });
    expect(await one('ship')).toMatchObject({ starts: 0, ends: {}, attempts: { count: 2 } });
    expect(await one('mail')).toMatchObject({
      starts: 2,
      ends: { completed: 2 },
      instances: { count: 0 },
      attempts: { count: 2 },
    });
    expect(await one()).toMatchObject({
      starts: 6,
      ends: { completed: 4, failed: 2 },
      instances: { count: 4 },
      attempts: { count: 4 },
    });
    expect(await client.series({ name: 'unknown' })).toEqual([]);
  });

  it('a worker writes once a minute, with the depths of the queues', async () => {
    const { perdure, client, clock } = await open();
    await perdure.startWorker(definitions);
    await client.runTask('unregistered');
    await (await client.start(order)).result();
    expect(await client.series()).toEqual([]);
    await clock.advance(minuteMs);
    await vi.waitFor(async () => expect(await client.series()).toHaveLength(2), 10_000);
    const [counted, sampled] = await client.series();
    expect(counted).toMatchObject({ starts: 1, ends: { completed: 1 } });
    expect(sampled).toMatchObject({
      at: (counted?.at ?? 0) + minuteMs,
      starts: 0,
      depths: { tasks: { ready: 1, oldestMs: minuteMs } },
    });
  });

  it('series() returns the duration of an execution with percentiles', async () => {
    const { perdure, client, clock } = await open();
    const worker = await perdure.startWorker(definitions);
    const handle = await client.start(slow);
    await vi.waitFor(async () => expect((await client.get(handle.id))?.status).toBe('running'));
    await clock.advance(90_000);
    await handle.result();
    await worker.stop();
    const minutes = await client.series({ name: 'slow', from: '10m' });
    expect(minutes.map(({ starts, instances }) => [starts, instances])).toEqual([
      [1, expect.objectContaining({ count: 0 })],
      [
        0,
        {
          count: 1,
          sumMs: 90_000,
          maxMs: 90_000,
          p50Ms: 90_000,
          p95Ms: 90_000,
          buckets: [{ upToMs: 300_000, count: 1 }],
        },
      ],
    ]);
  });

  it('the counts of two processes add up, and one of them samples the queues', async () => {
    const { perdure, client, clock, openPerdure } = await open();
    const other = await openPerdure();
    const samples = [perdure, other].map((one) => vi.spyOn(one.client, 'queueDepths'));
    const workers = [await perdure.startWorker(definitions), await other.startWorker(definitions)];
    for (const one of [perdure, other]) {
      for (let count = 0; count < 5; count += 1) await (await one.client.start(order)).result();
    }
    await clock.advance(minuteMs);
    await vi.waitFor(async () => {
      const [first, second] = await client.series();
      expect([first?.starts, second?.depths !== undefined]).toEqual([10, true]);
    }, 10_000);
    await Promise.all(workers.map((worker) => worker.stop()));
    expect(await client.series({ name: 'order' })).toMatchObject([{ starts: 10 }]);
    expect(samples.every((sample) => sample.mock.calls.length === 0)).toBe(true);
  });

  it('a write whose answer was lost is repeated and counts once', async () => {
    let lost = 0;
    const { perdure, client, clock } = await open((provider) => ({
      ...provider,
      async writeSeries(batch) {
        const applied = await provider.writeSeries(batch);
        if (lost === 0) {
          lost += 1;
          throw new Error('connection lost');
        }
        return applied;
      },
    }));
    const worker = await perdure.startWorker(definitions);
    await (await client.start(order)).result();
    await clock.advance(minuteMs);
    await vi.waitFor(() => expect(lost).toBe(1), 10_000);
    await delay(50);
    await (await client.start(order)).result();
    await worker.stop();
    const starts = (await client.series({ name: 'order' })).map((minute) => minute.starts);
    expect(starts).toEqual([1, 1]);
  });

  it('counts cancels of pending instances, terminations and expiries, also without a worker', async () => {
    const { perdure, client, clock, openPerdure } = await open();
    // No worker runs: the store alone ends these.
    for (const id of ['a', 'b', 'c']) await client.start(order, undefined, { id });
    const runs = [];
    for (const expiresIn of ['10s', '20s'] as const) {
      runs.push(await client.runTask(mail, undefined, { expiresIn }));
    }
    await client.cancel('a');
    await client.terminate('b');
    await client.terminate('c');
    const canceledRun = await client.runTask(mail);
    await canceledRun.cancel();
    const at = clock.now();
    await clock.advance(30_000);
    const worker = await perdure.startWorker(definitions);
    for (const run of runs) {
      await vi.waitFor(async () => expect((await client.get(run.id))?.status).toBe('expired'));
    }
    const other = await (await openPerdure()).startWorker(definitions);
    await clock.advance(minuteMs);
    // Both processes count the same instances.
    await other.stop();
    await worker.stop();
    const endsOf = async (name?: string) => {
      const minutes = await client.series({ name, from: at - minuteMs, to: at + 5 * minuteMs });
      const sums: Record<string, number> = {};
      for (const [status, count] of minutes.flatMap(({ ends }) => Object.entries(ends)))
        sums[status] = (sums[status] ?? 0) + count;
      return sums;
    };
    expect(await endsOf('order')).toEqual({ canceled: 1, terminated: 2 });
    expect(await endsOf('mail')).toEqual({ canceled: 1, expired: 2 });
    expect(await endsOf()).toEqual({ canceled: 2, terminated: 2, expired: 2 });
  });

  it('a canceled instance whose code cleaned up is counted once, with its duration', async () => {
    const { perdure, client, clock } = await open();
    const worker = await perdure.startWorker(definitions);
    const handle = await client.start(slow);
    await vi.waitFor(async () => expect((await client.get(handle.id))?.status).toBe('running'));
    await handle.cancel({ wait: true });
    await clock.advance(minuteMs);
    await vi.waitFor(async () => {
      expect(await client.series({ name: 'slow' })).toMatchObject([
        { starts: 1, ends: { canceled: 1 }, instances: { count: 1 } },
      ]);
    }, 10_000);
    await worker.stop();
    expect(await client.series({ name: 'slow' })).toMatchObject([{ ends: { canceled: 1 } }]);
  });

  it('series() returns how long tasks and activities waited for a worker', async () => {
    const { perdure, client, clock } = await open();
    const run = await client.runTask(mail);
    const delayed = await client.runTask(mail, undefined, { delay: '10s' });
    await clock.advance(12_000);
    const worker = await perdure.startWorker(definitions);
    await run.result();
    await delayed.result();
    // Claimed with the turn that schedules it, so it does not wait.
    await (await client.start(order)).result();
    await worker.stop();
    const waitsOf = async (name?: string) => (await client.series({ name })).at(-1)?.waits;
    expect(await waitsOf('mail')).toMatchObject({ count: 2, sumMs: 14_000, maxMs: 12_000 });
    expect(await waitsOf('ship')).toMatchObject({ count: 1, maxMs: 0 });
    expect(await waitsOf()).toMatchObject({ count: 3, sumMs: 14_000, p95Ms: 12_000 });
  });

  it('retention.keepSeries sets how long minutes are kept', async () => {
    const { perdure, client, clock } = await open();
    const retention = { keepSeries: '2h' } as const;
    const at = clock.now();
    for (let hour = 0; hour < 4; hour += 1) {
      const worker = await perdure.startWorker({ ...definitions, retention });
      await (await client.start(order)).result();
      await worker.stop();
      await clock.advance(3_600_000);
    }
    const kept = async () =>
      (await client.series({ from: at, to: clock.now(), name: 'order' })).length;
    expect(await kept()).toBe(4);
    await perdure.startWorker({ ...definitions, retention });
    await clock.advance(minuteMs);
    await vi.waitFor(async () => expect(await kept()).toBe(1), 10_000);
    for (const keepSeries of ['1m', -1, 'soon'] as never[]) {
      await expect(perdure.startWorker({ retention: { keepSeries } })).rejects.toMatchObject({
        code: expect.stringMatching(/^INVALID_(OPTION|DURATION)$/) as string,
      });
    }
  });

  it('one round of the sweep deletes more minutes than one transaction', async () => {
    let provider: Provider | undefined;
    const { perdure, client, clock } = await open((opened) => (provider = opened));
    const at = Math.floor(clock.now() / minuteMs) * minuteMs;
    const rows = Array.from({ length: 2_500 }, (_, index) => ({
      minute: at + (index % 1_000) * minuteMs,
      name: `n${Math.floor(index / 1_000)}`,
      counts: noCounts(),
    }));
    await provider?.writeSeries({ writerId: 'w', number: 1, rows });
    await clock.advance(9 * 86_400_000);
    await perdure.startWorker(definitions);
    await clock.advance(minuteMs);
    await vi.waitFor(async () => {
      for (const name of ['n0', 'n1', 'n2']) {
        const range = { name, from: at, to: at + 1_000 * minuteMs };
        expect(await client.series(range)).toEqual([]);
      }
    }, 10_000);
  });

  it('the worker deletes minutes that are older than 7 days', async () => {
    const { perdure, client, clock } = await open();
    const worker = await perdure.startWorker(definitions);
    await (await client.start(order)).result();
    await worker.stop();
    const at = clock.now();
    expect(await client.series({ from: at, to: at + 1 })).toHaveLength(1);
    // Without a worker, because a running one polls all these days.
    await clock.advance(8 * 86_400_000);
    await perdure.startWorker(definitions);
    await clock.advance(minuteMs);
    await vi.waitFor(async () => {
      expect(await client.series({ from: at, to: at + 1 })).toEqual([]);
    }, 10_000);
  });

  it('series() rejects invalid times and names', async () => {
    const { client } = await open();
    const bad = [
      { from: 'yesterday' },
      { from: Number.NaN },
      { from: 10 * minuteMs, to: 0 },
      { from: 0, to: 1_441 * minuteMs },
      { name: '' },
      { name: 7 },
      { names: ['a'] },
    ] as readonly object[];
    for (const query of bad) {
      await expect(client.series(query)).rejects.toMatchObject({
        code: expect.stringMatching(/^INVALID_(INPUT|OPTION)$/),
      });
    }
  });
});
