import { expect, it } from 'vitest';
import { task, type Client, type Overlap } from '../../src/index.ts';
import { describeScheduled, minute } from './scheduled-store.ts';

const work = task('work', (_ctx, input: string) => input);

/** The tick minutes of the runs of a schedule, by status. */
async function runsOf(client: Client, schedule = 's'): Promise<readonly string[]> {
  const { items } = await client.list({ idPrefix: `${schedule}@2` });
  return items
    .map(({ id, status }) => {
      const at = (Date.parse(id.slice(schedule.length + 1)) - minute(0)) / 60_000;
      return `${at} ${status}`;
    })
    .sort((a, b) => Number.parseInt(a, 10) - Number.parseInt(b, 10));
}

function tickId(count: number): string {
  return `s@${new Date(minute(count)).toISOString()}`;
}

describeScheduled('overlap, triggers and backfills', (scheduledStore) => {
  it.each<[Overlap, readonly string[]]>([
    ['allow', ['10 canceled', '20 pending', '30 pending', '40 pending']],
    ['skip', ['10 canceled', '40 pending']],
    ['buffer', ['10 canceled', '20 pending']],
    ['cancelRunning', ['10 canceled', '20 canceled', '30 canceled', '40 pending']],
  ])('overlap %j decides about ticks while a run is live', async (overlap, expected) => {
    const { clock, open } = await scheduledStore();
    const [{ perdure }, { perdure: elsewhere }] = [await open(), await open()];
    const { client } = perdure;
    // No worker has the task, so a run is live until it is canceled. Both workers tick.
    await perdure.startWorker({});
    await elsewhere.startWorker({});
    await client.schedules.put('s', { every: '10m', task: work, input: '', overlap });
    await clock.advance('35m');
    await client.cancel(tickId(10));
    await clock.advance('6m');
    expect(await runsOf(client)).toEqual(expected);
  });

  it('a buffered tick starts when the run ends, also after a restart of all workers', async () => {
    const { clock, open } = await scheduledStore();
    const { perdure } = await open();
    const { client } = perdure;
    const worker = await perdure.startWorker({});
    const schedule = {
      every: '10m',
      task: work,
      input: '',
      overlap: 'buffer',
      bufferLimit: 2,
    } as const;
    await client.schedules.put('s', schedule);
    await clock.advance('45m');
    expect(await client.schedules.get('s')).toMatchObject({
      bufferedTicks: [minute(20), minute(30)],
      skippedTicks: 1,
      runningIds: [tickId(10)],
      lastRuns: [{ id: tickId(10), status: 'pending' }],
    });
    await worker.stop();
    await client.cancel(tickId(10));
    const { perdure: elsewhere } = await open();
    await elsewhere.startWorker({});
    await clock.advance('1m');
    expect(await runsOf(client)).toEqual(['10 canceled', '20 pending']);
    await client.cancel(tickId(20));
    // The other store finds the change in the file at its next poll.
    const pollRuns = async () => {
      await clock.advance('1s');
      return runsOf(client);
    };
    await expect.poll(pollRuns).toEqual(['10 canceled', '20 canceled', '30 pending']);
    const info = await client.schedules.get('s');
    expect(info).not.toHaveProperty('bufferedTicks');
    expect(info?.lastRuns?.map(({ status }) => status)).toEqual([
      'pending',
      'canceled',
      'canceled',
    ]);
  });

  it('jitter delays ticks, and their runs keep the ids of the ticks', async () => {
    const { clock, open } = await scheduledStore();
    const { perdure } = await open();
    const { client } = perdure;
    await perdure.startWorker({});
    const put = (jitter: string | undefined) =>
      client.schedules.put('s', { every: '10m', task: work, input: '', jitter });
    await put('5m');
    const ticks = await client.schedules.next('s', { count: 6 });
    expect(ticks.map(({ tickAt }) => tickAt)).toEqual([10, 20, 30, 40, 50, 60].map(minute));
    expect(ticks.map(({ id }) => id)[0]).toBe(tickId(10));
    for (const { tickAt, firesAt } of ticks) {
      expect(firesAt - tickAt).toBeGreaterThanOrEqual(0);
      expect(firesAt - tickAt).toBeLessThan(300_000);
      await clock.advance(firesAt - clock.now() - 1);
      expect(await client.get(`s@${new Date(tickAt).toISOString()}`)).toBeUndefined();
      await clock.advance(1);
      expect(await client.get(`s@${new Date(tickAt).toISOString()}`)).toBeDefined();
    }
    expect(await put(undefined)).toMatchObject({ nextAt: minute(70) });
  });

  it('trigger() starts one run per key, also while paused, and moves no tick', async () => {
    const { clock, open } = await scheduledStore();
    const { perdure } = await open();
    const { client } = perdure;
    await perdure.startWorker({ tasks: [work] });
    await client.schedules.put('s', { every: '10m', task: work, input: 'now', overlap: 'skip' });
    await client.schedules.pause('s');
    await clock.advance('5m');
    const before = await client.schedules.get('s');
    const options = { key: 'k', actor: 'ops', reason: 'a test' };
    const run = await client.schedules.trigger('s', options);
    expect(run).toEqual({ id: 's@trigger-k', created: true });
    expect(await client.schedules.trigger('s', options)).toEqual({ ...run, created: false });
    expect(await client.handle(work, run.id).result()).toBe('now');
    const other = await client.schedules.trigger('s');
    expect(other.created).toBe(true);
    const after = await client.schedules.get('s');
    expect([after?.nextAt, after?.paused]).toEqual([before?.nextAt, true]);
    const { items } = await client.listAudit({ action: 'trigger' });
    expect(items).toHaveLength(2);
    expect(items.at(-1)).toMatchObject({ action: 'trigger', actor: 'ops', reason: 'a test' });
    expect(JSON.parse(items.at(-1)?.filter ?? '')).toEqual({ schedule: 's' });
  });

  it('a tick considers a triggered run that has not ended', async () => {
    const { clock, open } = await scheduledStore();
    const { perdure } = await open();
    const { client } = perdure;
    await perdure.startWorker({});
    await client.schedules.put('s', { every: '10m', task: work, input: '', overlap: 'skip' });
    await client.schedules.trigger('s', { key: 'k' });
    await clock.advance('11m');
    expect(await runsOf(client)).toEqual([]);
    expect(await client.schedules.get('s')).toMatchObject({
      skippedTicks: 1,
      runningIds: ['s@trigger-k'],
    });
  });

  it('backfill() starts each past tick once, in steps, and counts existing runs', async () => {
    const { clock, open } = await scheduledStore();
    const { perdure } = await open();
    const { client } = perdure;
    await client.schedules.put('s', { cron: '*/10 * * * *', task: work, input: '' });
    const worker = await perdure.startWorker({});
    await clock.advance('11m');
    await worker.stop();
    await client.schedules.pause('s');
    await clock.advance('34m');
    const window = { from: minute(-20), to: minute(600), actor: 'ops' };
    const dryRun = await client.schedules.backfill('s', { ...window, dryRun: true });
    expect(dryRun).toEqual({ started: 6, existing: 1 });
    expect(await runsOf(client)).toHaveLength(1);
    const first = await client.schedules.backfill('s', { ...window, limit: 3 });
    expect(first).toEqual({ started: 3, existing: 0, nextFrom: minute(10) });
    const from = first.nextFrom ?? 0;
    expect(await client.schedules.backfill('s', { ...window, from })).toEqual({
      started: 3,
      existing: 1,
    });
    expect(await client.schedules.backfill('s', window)).toEqual({ started: 0, existing: 7 });
    const minutes = (await runsOf(client)).map((run) => Number.parseInt(run, 10));
    expect(minutes).toEqual([-20, -10, 0, 10, 20, 30, 40]);
    const { items } = await client.listAudit();
    expect(items.map(({ action }) => action)).toEqual([
      'backfill',
      'backfill',
      'schedulePause',
      'schedulePut',
    ]);
  });

  it('trigger(), backfill() and next() reject invalid input and unknown schedules', async () => {
    const { open } = await scheduledStore();
    const { schedules } = (await open()).perdure.client;
    const window = { from: minute(0), to: minute(10) };
    for (const call of [
      () => schedules.trigger('none'),
      () => schedules.backfill('none', window),
      () => schedules.next('none'),
    ]) {
      await expect(call()).rejects.toMatchObject({ code: 'SCHEDULE_NOT_FOUND' });
    }
    const put = (parts: object) =>
      schedules.put('s', { every: '1h', task: work, input: '', ...parts });
    for (const [call, code] of [
      [() => schedules.trigger('s', { key: '' }), 'INVALID_NAME'],
      [() => schedules.trigger('s', { id: 'x' } as object), 'INVALID_OPTION'],
      [() => schedules.backfill('s', { ...window, to: minute(-1) }), 'INVALID_INPUT'],
      [() => schedules.backfill('s', { ...window, limit: 1_001 }), 'INVALID_INPUT'],
      [() => schedules.backfill('s', { to: 5 } as typeof window), 'INVALID_INPUT'],
      [() => put({ overlap: 'sometimes' }), 'INVALID_INPUT'],
      [() => put({ overlap: 'skip', bufferLimit: 2 }), 'INVALID_SCHEDULE'],
      [() => put({ overlap: 'buffer', bufferLimit: 101 }), 'INVALID_INPUT'],
      [() => put({ jitter: -1 }), 'INVALID_DURATION'],
    ] as const) {
      await expect(call()).rejects.toMatchObject({ code });
    }
  });

  it('runs() lists the runs of ticks and triggers with their results, newest first', async () => {
    const { clock, open } = await scheduledStore();
    const { perdure } = await open();
    const { client } = perdure;
    const broken = task('broken', (_ctx, input: string): string => {
      throw Object.assign(new Error(`No ${input}.`), { code: 'NONE' });
    });
    await perdure.startWorker({ tasks: [broken] });
    await client.schedules.put('s', { every: '10m', task: broken, input: 'luck' });
    await client.schedules.put('s@2', { every: '7m', task: work, input: '' });
    expect(await client.schedules.runs('s')).toEqual([]);
    await clock.advance('25m');
    const triggered = await client.schedules.trigger('s', { key: 'k' });
    // Not a run of the schedule, although its id begins like one.
    await client.runTask(work, '', { id: 's@mine' });
    await clock.advance('1m');
    const runs = await client.schedules.runs('s');
    const failure = { name: 'Error', message: 'No luck.', code: 'NONE' };
    expect(runs.map(({ id, status, tickAt }) => [id, status, tickAt])).toEqual([
      [triggered.id, 'failed', undefined],
      [tickId(20), 'failed', minute(20)],
      [tickId(10), 'failed', minute(10)],
    ]);
    expect(runs[0]).toMatchObject({ failure, endedAt: expect.any(Number) as number });
    expect(await client.schedules.runs('s', { limit: 1 })).toHaveLength(1);
    await expect(client.schedules.runs('nobody')).rejects.toMatchObject({
      code: 'SCHEDULE_NOT_FOUND',
    });
    for (const limit of [0, 101, 1.5]) {
      await expect(client.schedules.runs('s', { limit })).rejects.toMatchObject({
        code: 'INVALID_INPUT',
      });
    }
  });
});
