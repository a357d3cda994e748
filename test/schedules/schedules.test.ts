import { expect, it } from 'vitest';
import {
  orchestration,
  Perdure,
  task,
  type CatchUp,
  type Client,
  type FlowRef,
} from '../../src/index.ts';
import { silentLogger } from '../../src/model/logger.ts';
import { Scheduler } from '../../src/schedules/scheduler.ts';
import { describeScheduled, minute } from './scheduled-store.ts';

const work = task('work', (_ctx, input: string) => input);

/** Returns the times of the ticks that started a run, in minutes after the start. */
async function ticksOf(client: Client, schedule: string): Promise<readonly number[]> {
  const { items } = await client.list({ idPrefix: `${schedule}@` });
  return items
    .map(({ id }) => Date.parse(id.slice(schedule.length + 1)))
    .map((at) => (at - minute(0)) / 60_000)
    .sort((a, b) => a - b);
}

describeScheduled('schedules', (scheduledStore) => {
  it('an interval runs its task at each tick, with the tick time in the id', async () => {
    const { clock, open } = await scheduledStore();
    const { perdure } = await open();
    const { client } = perdure;
    await perdure.startWorker({ tasks: [work] });
    const put = await client.schedules.put('often', { every: '5m', task: work, input: 'hi' });
    expect(put).toMatchObject({ name: 'often', paused: false, nextAt: minute(5) });
    await clock.advance('11m');
    expect(await ticksOf(client, 'often')).toEqual([5, 10]);
    const id = `often@${new Date(minute(10)).toISOString()}`;
    expect(await client.handle(work, id).result()).toBe('hi');
    expect(await client.get(id)).toMatchObject({ kind: 'task', createdAt: minute(10) });
    expect(await client.schedules.get('often')).toMatchObject({
      nextAt: minute(15),
      lastTickAt: minute(10),
      lastInstanceId: id,
    });
  });

  it('a cron schedule starts an orchestration at the time of its time zone', async () => {
    const { clock, open } = await scheduledStore();
    const { perdure } = await open();
    const { client } = perdure;
    const report = orchestration('report', async (_ctx, day: string) => `report of ${day}`);
    await perdure.startWorker({ orchestrations: [report] });
    await client.schedules.put('daily', {
      cron: '30 22 * * *',
      timeZone: 'Asia/Tokyo',
      orchestration: report,
      input: 'today',
    });
    await clock.advance('24h');
    expect(await ticksOf(client, 'daily')).toEqual([90]);
    const id = `daily@${new Date(minute(90)).toISOString()}`;
    expect(await client.handle(report, id).result()).toBe('report of today');
  });

  it('a schedule starts a flow with its graph and input', async () => {
    const { clock, open } = await scheduledStore();
    const { perdure } = await open();
    const { client } = perdure;
    const runs = orchestration('orders', async (_ctx, run: unknown) => run);
    const orders: FlowRef<string> = {
      kind: 'flow',
      name: 'orders',
      graph: { name: 'orders', steps: [] },
      orchestration: runs,
    };
    await perdure.startWorker({ orchestrations: [runs] });
    await client.schedules.put('s', { every: '1h', flow: orders, input: 'today' });
    await clock.advance('61m');
    const id = `s@${new Date(minute(60)).toISOString()}`;
    expect(await client.handle(id).result()).toEqual({ flow: orders.graph, input: 'today' });
  });

  it('each tick runs once with several stores and workers', async () => {
    const { clock, open } = await scheduledStore();
    const calls: string[] = [];
    const count = task('count', (ctx) => void calls.push(ctx.runId));
    const stores = await Promise.all([open(), open(), open()]);
    for (const { perdure } of stores) {
      await perdure.startWorker({ tasks: [count] });
      await perdure.startWorker({ tasks: [count] });
    }
    const { client } = stores[0].perdure;
    await client.schedules.put('a', { every: '1m', task: count });
    await client.schedules.put('b', { every: '2m', task: count });
    for (let step = 0; step < 20; step += 1) await clock.advance('1m');
    await Promise.all(stores.map(({ perdure }) => perdure.startWorker({})));
    await clock.advance('1s');
    expect(await ticksOf(client, 'a')).toEqual(Array.from({ length: 20 }, (_, n) => n + 1));
    expect(await ticksOf(client, 'b')).toEqual(Array.from({ length: 10 }, (_, n) => 2 * (n + 1)));
    expect(new Set(calls).size).toBe(30);
    expect(calls).toHaveLength(30);
  });

  it.each<[CatchUp, readonly number[]]>([
    ['skip', [10, 110]],
    ['one', [10, 100, 110]],
    ['all', [10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110]],
  ])(
    'catchUp "%s" decides which missed ticks run after a time without a worker',
    async (catchUp, ticks) => {
      const { clock, open } = await scheduledStore();
      const { perdure } = await open();
      const { client } = perdure;
      const worker = await perdure.startWorker({ tasks: [work] });
      await client.schedules.put('s', { every: '10m', task: work, input: '', catchUp });
      await clock.advance('11m');
      await worker.stop();
      await clock.advance('94m');
      await perdure.startWorker({ tasks: [work] });
      await clock.advance('6m');
      expect(await ticksOf(client, 's')).toEqual(ticks);
      expect(await client.schedules.get('s')).toMatchObject({ nextAt: minute(120) });
    },
  );

  it('a paused schedule skips its ticks, and resume() continues with the next one', async () => {
    const { clock, open } = await scheduledStore();
    const { perdure } = await open();
    const { client } = perdure;
    await perdure.startWorker({ tasks: [work] });
    await client.schedules.put('s', { every: '10m', task: work, input: '', catchUp: 'all' });
    await clock.advance('11m');
    await client.schedules.pause('s');
    await client.schedules.pause('s');
    expect(await client.schedules.nextRuns('s')).toEqual([]);
    await clock.advance('30m');
    expect(await client.schedules.get('s')).toMatchObject({ paused: true });
    await client.schedules.resume('s');
    await client.schedules.resume('s');
    await clock.advance('20m');
    expect(await ticksOf(client, 's')).toEqual([10, 50, 60]);
  });

  it('delete() stops a schedule, and the runs it started continue', async () => {
    const { clock, open } = await scheduledStore();
    const { perdure } = await open();
    const { client } = perdure;
    await perdure.startWorker({});
    await client.schedules.put('s', { every: '10m', task: work, input: 'kept' });
    await clock.advance('11m');
    expect(await client.schedules.delete('s')).toBe(true);
    expect(await client.schedules.delete('s')).toBe(false);
    await clock.advance('30m');
    expect(await ticksOf(client, 's')).toEqual([10]);
    await perdure.startWorker({ tasks: [work] });
    const id = `s@${new Date(minute(10)).toISOString()}`;
    expect(await client.handle(work, id).result()).toBe('kept');
  });

  it('put() of an existing schedule keeps its next tick unless the timing changes', async () => {
    const { clock, open } = await scheduledStore();
    const { perdure } = await open();
    const { schedules } = perdure.client;
    const put = (every: string, input: string) => schedules.put('s', { every, task: work, input });
    const first = await put('10m', 'a');
    await clock.advance('4m');
    expect(await put('10m', 'a')).toEqual(first);
    expect(await put('10m', 'b')).toMatchObject({ nextAt: minute(10), createdAt: minute(0) });
    expect(await put('20m', 'b')).toMatchObject({ nextAt: minute(24) });
    // A program that puts its schedules again at startup keeps a due tick.
    await clock.advance('60m');
    expect(await put('20m', 'c')).toMatchObject({ nextAt: minute(24) });
  });

  it('a worker runs a schedule that another process puts', async () => {
    const { clock, open } = await scheduledStore();
    const [{ perdure }, { perdure: elsewhere }] = [await open(), await open()];
    await perdure.startWorker({ tasks: [work] });
    await clock.advance('1m');
    await elsewhere.client.schedules.put('s', { every: '61m', task: work, input: '' });
    await clock.advance('63m');
    expect(await ticksOf(elsewhere.client, 's')).toEqual([62]);
  });

  it('a tick with the dedupe key of an active run starts no second run', async () => {
    const { clock, open } = await scheduledStore();
    const { perdure } = await open();
    const { client } = perdure;
    await perdure.startWorker({});
    const options = { dedupeKey: 'one at a time', headers: { from: 'schedule' }, priority: 7 };
    await client.schedules.put('s', { every: '10m', task: work, input: '', options });
    await clock.advance('35m');
    expect(await ticksOf(client, 's')).toEqual([10]);
    const id = `s@${new Date(minute(10)).toISOString()}`;
    expect(await client.get(id)).toMatchObject({
      task: { dedupeKey: 'one at a time', headers: { from: 'schedule' }, priority: 7 },
    });
    expect(await client.schedules.get('s')).toMatchObject({
      lastTickAt: minute(30),
      lastInstanceId: id,
    });
  });

  it('a schedule with endAt has no next tick after its last one', async () => {
    const { clock, open } = await scheduledStore();
    const { perdure } = await open();
    const { client } = perdure;
    await perdure.startWorker({});
    const [startAt, endAt] = [minute(25), new Date(minute(40))];
    await client.schedules.put('s', { every: '10m', startAt, endAt, task: work, input: '' });
    expect(await client.schedules.nextRuns('s')).toEqual([30, 40].map((n) => new Date(minute(n))));
    await clock.advance('2h');
    expect(await ticksOf(client, 's')).toEqual([30, 40]);
    expect(await client.schedules.get('s')).not.toHaveProperty('nextAt');
  });

  it('schedules.list() returns pages sorted by name, with definition and timing', async () => {
    const { open } = await scheduledStore();
    const { schedules } = (await open()).perdure.client;
    for (const name of ['c', 'a', 'b']) {
      await schedules.put(name, { cron: '0 3 * * *', task: work, input: '', catchUp: 'skip' });
    }
    const page = await schedules.list({ limit: 2 });
    expect(page).toMatchObject({ items: [{ name: 'a' }, { name: 'b' }], nextAfter: 'b' });
    const last = await schedules.list({ after: 'b' });
    expect(last.items).toHaveLength(1);
    expect(last).not.toHaveProperty('nextAfter');
    expect(last.items[0]).toMatchObject({
      name: 'c',
      definition: {
        cron: '0 3 * * *',
        timeZone: 'UTC',
        catchUp: 'skip',
        starts: { kind: 'task', name: 'work' },
      },
    });
  });

  it('an undecodable schedule records an error, stops, and affects no other', async () => {
    const { clock, open } = await scheduledStore();
    const { perdure, provider } = await open();
    const { client } = perdure;
    await perdure.startWorker({});
    await provider.putSchedule({ name: 'damaged', definition: '{"a":', nextAt: minute(1) });
    await client.schedules.put('sound', { every: '1m', task: work, input: '' });
    await clock.advance('3m');
    expect(await ticksOf(client, 'sound')).toEqual([1, 2, 3]);
    const damaged = await client.schedules.get('damaged');
    expect(damaged?.lastError).toContain('cannot be decoded');
    expect(damaged).not.toHaveProperty('definition');
    expect(damaged).not.toHaveProperty('nextAt');
    await client.schedules.put('damaged', { every: '1m', task: work, input: '' });
    await clock.advance('1m');
    expect(await ticksOf(client, 'damaged')).toEqual([4]);
  });

  it('many schedules that catch up together start at most 1,000 runs per call', async () => {
    const { clock, open } = await scheduledStore();
    const { perdure, provider } = await open();
    const names = ['a', 'b', 'c', 'd'];
    for (const name of names) {
      await perdure.client.schedules.put(name, {
        every: '1m',
        task: work,
        input: '',
        catchUp: 'all',
      });
    }
    await clock.advance('600m');
    const portions: number[] = [];
    const watched: typeof provider = {
      ...provider,
      tickSchedules: (ticks) => {
        portions.push(ticks.reduce((sum, { tasks }) => sum + tasks.length, 0));
        return provider.tickSchedules(ticks);
      },
    };
    const scheduler = new Scheduler({
      provider: watched,
      clock,
      logger: silentLogger,
      recheckMs: 60_000,
    });
    scheduler.start();
    await clock.advance('10s');
    expect((await provider.dueSchedules(1)).due).toEqual([]);
    await scheduler.stop();
    expect(portions.reduce((sum, portion) => sum + portion)).toBe(4 * 600);
    expect(Math.max(...portions)).toBeLessThanOrEqual(1_000);
  });

  it('a punctual schedule does not wait for 120 others to catch up', async () => {
    const { clock, open } = await scheduledStore();
    const { perdure, provider } = await open();
    const { schedules } = perdure.client;
    const behind = { every: '1h', task: work, input: '', catchUp: 'all' } as const;
    for (let n = 0; n < 120; n += 1) await schedules.put(`behind-${n}`, behind);
    await schedules.put('punctual', { ...behind, every: '24h' });
    await clock.advance('24h');
    const portions: boolean[] = [];
    const watched: typeof provider = {
      ...provider,
      tickSchedules: (ticks) => {
        portions.push(ticks.some(({ name }) => name === 'punctual'));
        return provider.tickSchedules(ticks);
      },
    };
    const scheduler = new Scheduler({
      provider: watched,
      clock,
      logger: silentLogger,
      recheckMs: 60_000,
    });
    scheduler.start();
    await clock.advance('10s');
    await scheduler.stop();
    expect(portions.indexOf(true)).toBe(1);
    expect((await provider.dueSchedules(1)).due).toEqual([]);
  });

  it('resume() keeps a timing that put() changed concurrently', async () => {
    const { clock, open } = await scheduledStore();
    const { perdure, provider } = await open();
    const { schedules } = perdure.client;
    await schedules.put('s', { every: '10m', task: work, input: '' });
    await schedules.pause('s');
    const racing = await Perdure.open(
      {
        ...provider,
        hints: (listener) => provider.hints(listener),
        async setSchedulePaused(name, paused, resume) {
          await schedules.put('s', { every: '1h', task: work, input: '' });
          return provider.setSchedulePaused(name, paused, resume);
        },
        close: async () => undefined,
      },
      { clock },
    );
    await racing.client.schedules.resume('s');
    await racing.close();
    expect(await schedules.get('s')).toMatchObject({ paused: false, nextAt: minute(60) });
  });

  it('a stopped worker leaves no timer', async () => {
    const { clock, open } = await scheduledStore();
    const { perdure } = await open();
    await perdure.client.schedules.put('s', { every: '1m', task: work, input: '' });
    const worker = await perdure.startWorker({ tasks: [work] });
    await clock.advance('90s');
    await worker.stop();
    expect(clock.alarmCount).toBe(0);
  });
});
