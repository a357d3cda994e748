import { expect, it } from 'vitest';
import { activity } from '../../src/orchestration/activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { describeEngine } from './describe-engine.ts';

describeEngine('activities', (open) => {
  const greet = activity('greet', async (_ctx, name: string) => `Hello, ${name}!`);

  it('an orchestration calls an activity and returns its result', async () => {
    const hello = orchestration('hello', async (ctx, name: string) => await ctx.call(greet, name));
    const { client } = await open({ orchestrations: [hello], activities: [greet] });
    const handle = await client.start(hello, 'World', { id: 'hello-1' });
    expect(await handle.result()).toBe('Hello, World!');
    expect(await client.get('hello-1')).toMatchObject({
      status: 'completed',
      output: 'Hello, World!',
    });
  });

  it('40 concurrent instances of five calls each return their own results', async () => {
    const square = activity('square', async (_ctx, n: number) => n * n);
    const sum = orchestration('sum', async (ctx, n: number) => {
      let total = 0;
      for (let i = 1; i <= 5; i += 1) total += await ctx.call(square, n + i);
      return total;
    });
    const { client } = await open({ orchestrations: [sum], activities: [square] });
    const numbers = Array.from({ length: 40 }, (_, index) => index);
    const handles = await Promise.all(numbers.map((n) => client.start(sum, n)));
    const results = await Promise.all(handles.map((handle) => handle.result()));
    expect(results).toEqual(
      numbers.map((n) => [1, 2, 3, 4, 5].reduce((total, i) => total + (n + i) ** 2, 0)),
    );
  });

  it('Promise.all() and ctx.all() return results in call order, not completion order', async () => {
    const echo = activity('echo', async (_ctx, ms: number) => {
      await new Promise((resolve) => setTimeout(resolve, ms));
      return ms;
    });
    const fan = orchestration('fan', async (ctx) => {
      const native = await Promise.all([30, 5, 15].map((ms) => ctx.call(echo, ms)));
      const own = await ctx.all([20, 1].map((ms) => ctx.call(echo, ms)));
      return [...native, ...own];
    });
    const { client } = await open({ orchestrations: [fan], activities: [echo] });
    expect(await (await client.start(fan, undefined)).result()).toEqual([30, 5, 15, 20, 1]);
  });

  it('a fan-out of 50 calls completes on a worker with three slots', async () => {
    const echo = activity('echo', async (_ctx, n: number) => n);
    const fan = orchestration('fan', async (ctx, width: number) => {
      const calls = Array.from({ length: width }, (_, n) => ctx.call(echo, n));
      return (await Promise.all(calls)).length;
    });
    const { client } = await open({
      orchestrations: [fan],
      activities: [echo],
      activityConcurrency: 3,
    });
    expect(await (await client.start(fan, 50)).result()).toBe(50);
  });

  it('a worker runs at most activityConcurrency handlers at the same time', async () => {
    let running = 0;
    let most = 0;
    const work = activity('work', async () => {
      running += 1;
      most = Math.max(most, running);
      await new Promise((resolve) => setTimeout(resolve, 2));
      running -= 1;
    });
    const fan = orchestration('fan', async (ctx) => {
      await Promise.all(Array.from({ length: 6 }, () => ctx.call(work)));
    });
    const { client } = await open({
      orchestrations: [fan],
      activities: [work],
      activityConcurrency: 4,
    });
    const handles = await Promise.all(
      Array.from({ length: 10 }, () => client.start(fan, undefined)),
    );
    await Promise.all(handles.map((handle) => handle.result()));
    expect(most).toBeLessThanOrEqual(4);
    expect(most).toBeGreaterThan(1);
  });

  it('undefined, null, text and nested data survive an activity round trip', async () => {
    const same = activity('same', async (_ctx, value: unknown) => value);
    const echo = orchestration('echo', async (ctx, value: unknown) => await ctx.call(same, value));
    const { client } = await open({ orchestrations: [echo], activities: [same] });
    for (const value of [
      undefined,
      null,
      0,
      '',
      'é\ud83d\ude00\u0000',
      { a: [1, { b: null }] },
      [],
    ]) {
      expect(await (await client.start(echo, value)).result()).toEqual(value);
    }
  });

  it('a handler context has its names, its attempt and a stable idempotency key', async () => {
    const seen: object[] = [];
    const look = activity('look', async (ctx) => {
      seen.push({
        instanceId: ctx.instanceId,
        activityName: ctx.activityName,
        attempt: ctx.attempt,
        key: ctx.idempotencyKey,
      });
      if (ctx.attempt === 1) throw new Error('once more');
    });
    const run = orchestration('run', async (ctx) => {
      await ctx.call(look, undefined, { retry: { maxAttempts: 2, initialDelay: 1 } });
    });
    const { client } = await open({ orchestrations: [run], activities: [look] });
    await (await client.start(run, undefined, { id: 'r' })).result();
    expect(seen).toMatchObject([
      { instanceId: 'r', activityName: 'look', attempt: 1 },
      { instanceId: 'r', activityName: 'look', attempt: 2 },
    ]);
    expect(new Set(seen.map((one) => (one as { key: string }).key)).size).toBe(1);
  });
});
