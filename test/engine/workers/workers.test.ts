import { expect, it } from 'vitest';
import { activity } from '../../../src/orchestration/activity.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { describeEngine } from '../describe-engine.ts';

describeEngine('workers', (open) => {
  const step = activity('step', async (_ctx, n: number) => n);
  const run = orchestration('run', async (ctx, n: number) => ctx.call(step, n));

  it('work without a matching worker waits, delays no other work, and runs later', async () => {
    const other = orchestration('other', async () => 'other');
    const engine = await open({ orchestrations: [other] });
    const waiting = await engine.client.start(run, 5);
    expect(await (await engine.client.start(other, undefined)).result()).toBe('other');
    expect(await engine.client.get(waiting.id)).toMatchObject({ status: 'pending' });
    await engine.startWorker({ orchestrations: [run] });
    await expect.poll(async () => (await engine.client.get(waiting.id))?.status).toBe('running');
    await engine.startWorker({ activities: [step] });
    expect(await waiting.result()).toBe(5);
  });

  it('stop() releases a running activity, and another worker claims it immediately', async () => {
    let started: () => void;
    const running = new Promise<void>((resolve) => (started = resolve));
    const reasons: unknown[] = [];
    let stubborn = true;
    const hold = activity('hold', async (ctx) => {
      if (!stubborn) return 'done';
      started();
      reasons.push(await ctx.canceled());
      throw new Error('stopped');
    });
    const holding = orchestration('holding', async (ctx) => ctx.call(hold));
    const engine = await open();
    const first = await engine.startWorker({
      orchestrations: [holding],
      activities: [hold],
      shutdownGrace: 10,
    });
    const handle = await engine.client.start(holding, undefined);
    await running;
    stubborn = false;
    const stopped = first.stop();
    expect(first.stop()).toBe(stopped);
    await stopped;
    expect(reasons).toMatchObject([{ trigger: 'shutdown' }]);
    const startedAt = Date.now();
    await engine.startWorker({ orchestrations: [holding], activities: [hold] });
    expect(await handle.result()).toBe('done');
    // Far less than the lease of 30 s.
    expect(Date.now() - startedAt).toBeLessThan(10_000);
  });

  it('stop() acks an activity that finishes within shutdownGrace', async () => {
    let started: () => void;
    const running = new Promise<void>((resolve) => (started = resolve));
    let finish: () => void;
    const finished = new Promise<void>((resolve) => (finish = resolve));
    let runs = 0;
    const hold = activity('hold', async () => {
      runs += 1;
      started();
      await finished;
      return 'in time';
    });
    const holding = orchestration('holding', async (ctx) => ctx.call(hold));
    const engine = await open();
    const worker = await engine.startWorker({
      orchestrations: [holding],
      activities: [hold],
      shutdownGrace: '10s',
    });
    const handle = await engine.client.start(holding, undefined);
    await running;
    const stopped = worker.stop();
    finish!();
    await stopped;
    await engine.startWorker({ orchestrations: [holding], activities: [hold] });
    expect(await handle.result()).toBe('in time');
    expect(runs).toBe(1);
  });

  it('two engines on one store share the work, and both get the results', async () => {
    const engine = await open({ orchestrations: [run], activities: [] });
    const second = await engine.reopen();
    await second.startWorker({ activities: [step] });
    const here = await engine.client.start(run, 1);
    const there = await second.client.start(run, 2);
    expect(await Promise.all([here.result(), there.result()])).toEqual([1, 2]);
    expect(await second.client.handle(here.id).result()).toBe(1);
  });

  it('an instance continues on another worker after its worker stopped between turns', async () => {
    const long = orchestration('long', async (ctx) => {
      const a = await ctx.call(step, 1);
      await ctx.waitFor('go');
      return a + (await ctx.call(step, 2));
    });
    const engine = await open();
    const first = await engine.startWorker({ orchestrations: [long], activities: [step] });
    const handle = await engine.client.start(long, undefined);
    await expect
      .poll(async () => (await engine.client.history(handle.id)).items.at(-1)?.event.kind)
      .toBe('eventAwaited');
    await first.stop();
    await handle.raiseEvent('go', null);
    const second = await engine.reopen();
    await second.startWorker({ orchestrations: [long], activities: [step] });
    expect(await handle.result()).toBe(3);
  });

  it('lastHeartbeat contains the heartbeat of the failed previous attempt', async () => {
    const seen: unknown[] = [];
    const copy = activity('copy', async (ctx) => {
      seen.push(ctx.lastHeartbeat);
      if (ctx.attempt === 2) return;
      ctx.heartbeat({ row: 41 });
      throw new Error('broke off');
    });
    const copying = orchestration('copying', async (ctx) => {
      await ctx.call(copy, undefined, { retry: { maxAttempts: 2, initialDelay: 1 } });
    });
    const { client } = await open({
      orchestrations: [copying],
      activities: [copy],
    });
    await (await client.start(copying, undefined)).result();
    expect(seen).toEqual([undefined, { row: 41 }]);
  });

  it('ctx.client in an activity can start instances and raise events', async () => {
    const other = orchestration('other', async (ctx) => ctx.waitFor('go'));
    const kick = activity('kick', async (ctx) => {
      await ctx.client.start(other, undefined, { id: 'kicked' });
      await ctx.client.raiseEvent('kicked', 'go', 'from an activity');
    });
    const kicking = orchestration('kicking', async (ctx) => ctx.call(kick));
    const { client } = await open({ orchestrations: [kicking, other], activities: [kick] });
    await (await client.start(kicking, undefined)).result();
    expect(await client.handle('kicked').result()).toBe('from an activity');
  });

  it('hooks and logs run once despite replay, and a hook that throws is logged', async () => {
    const turns: string[] = [];
    const attempts: string[] = [];
    const errors: unknown[] = [];
    const log: string[] = [];
    const logging = orchestration('logging', async (ctx, n: number) => {
      ctx.log.info({}, 'before');
      const result = await ctx.call(step, n);
      ctx.log.info({}, 'after');
      return result;
    });
    const { client } = await open({
      orchestrations: [logging],
      activities: [step],
      hooks: {
        turnCommitted: ({ status }) => {
          turns.push(status);
          throw new Error('a bad hook');
        },
        attemptEnded: ({ outcome }) => attempts.push(outcome),
      },
      logger: {
        debug: () => undefined,
        info: (_fields, message) => log.push(message),
        warn: () => undefined,
        error: (fields) => errors.push(fields),
      },
    });
    expect(await (await client.start(logging, 3)).result()).toBe(3);
    await expect.poll(() => turns.at(-1)).toBe('completed');
    expect(attempts).toEqual(['completed']);
    expect(log.filter((message) => message === 'before' || message === 'after')).toEqual([
      'before',
      'after',
    ]);
    expect(errors.length).toBe(turns.length);
  });
});
