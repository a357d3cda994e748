import { expect, it } from 'vitest';
import { activity } from '../../src/orchestration/activity.ts';
import { event, orchestration } from '../../src/orchestration/orchestration.ts';
import { describeEngine } from './describe-engine.ts';

describeEngine('timers and events', (open) => {
  it('timers fire in the order of their due times, not of their creation', async () => {
    const run = orchestration('run', async (ctx) => {
      const order: number[] = [];
      await Promise.all(
        [60, 10, 30].map(async (ms) => {
          await ctx.sleep(ms);
          order.push(ms);
        }),
      );
      return order;
    });
    const { client } = await open({ orchestrations: [run] });
    expect(await (await client.start(run, undefined)).result()).toEqual([10, 30, 60]);
  });

  it('Date.now() and ctx.now() advance by at least the duration of a sleep', async () => {
    const run = orchestration('run', async (ctx) => {
      const before = Date.now();
      await ctx.sleep(25);
      return [before, Date.now(), ctx.now()];
    });
    const { client } = await open({ orchestrations: [run] });
    const [before = 0, after = 0, own] = await (await client.start(run, undefined)).result();
    expect(after - before).toBeGreaterThanOrEqual(25);
    expect(own).toBe(after);
  });

  it('events raised before waitFor() are buffered and delivered in order', async () => {
    const item = event<number>('item');
    const collect = orchestration('collect', async (ctx) => {
      await ctx.sleep(20);
      const got: number[] = [];
      for (let i = 0; i < 5; i += 1) got.push(await ctx.waitFor(item));
      return got;
    });
    const { client } = await open({ orchestrations: [collect] });
    const handle = await client.start(collect, undefined);
    for (let i = 0; i < 5; i += 1) await handle.raiseEvent(item, i);
    expect(await handle.result()).toEqual([0, 1, 2, 3, 4]);
  });

  it('a wait that timed out consumes no later event', async () => {
    const run = orchestration('run', async (ctx) => {
      const first = await ctx
        .waitFor('go', { timeout: 15 })
        .catch((error: { code: string }) => error.code);
      ctx.setCustomStatus('waiting again');
      return [first, await ctx.waitFor('go')];
    });
    const { client } = await open({ orchestrations: [run] });
    const handle = await client.start(run, undefined);
    await expect
      .poll(async () => (await client.get(handle.id))?.customStatus)
      .toBe('waiting again');
    await handle.raiseEvent('go', 'late');
    expect(await handle.result()).toEqual(['TIMEOUT', 'late']);
  });

  it('raiseEvent() to an ended or unknown instance rejects', async () => {
    const run = orchestration('run', async () => 1);
    const { client } = await open({ orchestrations: [run] });
    const handle = await client.start(run, undefined);
    await handle.result();
    await expect(handle.raiseEvent('e', 1)).rejects.toMatchObject({
      code: expect.any(String) as string,
    });
    await expect(client.raiseEvent('nobody', 'e', 1)).rejects.toMatchObject({
      code: 'INSTANCE_NOT_FOUND',
    });
  });

  it('ctx.select() returns the timer that wins against an activity', async () => {
    const never = activity('never', async (ctx) => {
      await ctx.canceled();
    });
    const run = orchestration('run', async (ctx) => {
      const won = await ctx.select({ work: ctx.call(never), late: ctx.sleep(20) });
      return won.key;
    });
    const { client } = await open({
      orchestrations: [run],
      activities: [never],
      activityLease: 300,
    });
    expect(await (await client.start(run, undefined)).result()).toBe('late');
  });
});
