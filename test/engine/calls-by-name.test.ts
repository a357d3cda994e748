import { expect, it } from 'vitest';
import { isPerdureError } from '../../src/model/failures/errors.ts';
import type { ActivityContext } from '../../src/orchestration/activity-context.ts';
import { activity } from '../../src/orchestration/activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { describeEngine } from './describe-engine.ts';

async function untilStopped(ctx: ActivityContext): Promise<void> {
  await ctx.canceled();
  ctx.throwIfCanceled();
}

const retry = { maxAttempts: 3, initialDelay: 1, jitter: 0 };

describeEngine('an activity called by name', (open) => {
  const flaky = (succeedsAt: number) =>
    activity(
      'flaky',
      async ({ attempt }) => {
        if (attempt < succeedsAt) throw new Error(`attempt ${attempt}`);
        return attempt;
      },
      { retry },
    );

  it('a call by name uses the retry policy of the definition', async () => {
    const run = orchestration('run', async (ctx) => ctx.call('flaky'));
    const { client } = await open({ orchestrations: [run], activities: [flaky(3)] });
    expect(await (await client.start(run)).result()).toBe(3);
  });

  it('a call by name uses the retry policy of the worker that runs it', async () => {
    const run = orchestration('run', async (ctx) => ctx.call('flaky'));
    const { client, startWorker } = await open({ orchestrations: [run] });
    await startWorker({ activities: [flaky(2)] });
    expect(await (await client.start(run)).result()).toBe(2);
  });

  it('the retry policy of a call overrides the one of the definition', async () => {
    const run = orchestration('run', async (ctx) =>
      ctx.call('flaky', undefined, { retry: { maxAttempts: 1 } }),
    );
    const { client } = await open({ orchestrations: [run], activities: [flaky(2)] });
    await expect((await client.start(run)).result()).rejects.toMatchObject({
      failure: { cause: { message: 'attempt 1' } },
    });
  });

  it('a call by name uses the attemptTimeout of the definition', async () => {
    const slow = activity('slow', untilStopped, { attemptTimeout: 20 });
    const run = orchestration('run', async (ctx) =>
      ctx.call('slow').catch((error: Error) => error.message),
    );
    const { client, startWorker } = await open({ orchestrations: [run] });
    await startWorker({ activities: [slow] });
    expect(await (await client.start(run)).result()).toMatch(/took longer than 20 ms/);
  });

  it('a call by name records the timeout that the worker of the turn has registered', async () => {
    const slow = activity('slow', untilStopped, { timeout: 20 });
    const run = orchestration('run', async (ctx) =>
      ctx.call('slow').catch((error: unknown) => isPerdureError(error, 'TIMEOUT')),
    );
    const { client } = await open({ orchestrations: [run], activities: [slow] });
    const handle = await client.start(run);
    expect(await handle.result()).toBe(true);
    const { events } = await client.exportHistory(handle.id);
    expect(events).toMatchObject([
      { kind: 'executionStarted' },
      { kind: 'activityScheduled', options: { byName: { timeoutMs: 20 } } },
      { kind: 'timerCreated' },
      ...events.slice(3),
    ]);
  });

  it('a call by name uses the priority and cancellation mode of the definition', async () => {
    const quick = activity('quick', async () => 'done', { priority: 7, cancellation: 'wait' });
    const run = orchestration('run', async (ctx) => [
      await ctx.call('quick'),
      await ctx.call('quick', undefined, { priority: 3, cancellation: 'request' }),
    ]);
    const { client } = await open({ orchestrations: [run], activities: [quick] });
    const handle = await client.start(run);
    await handle.result();
    const { events } = await client.exportHistory(handle.id);
    const calls = events.filter(({ kind }) => kind === 'activityScheduled');
    expect(calls).toMatchObject([
      { options: { priority: 7 }, cancellation: 'wait' },
      { options: { priority: 3 } },
    ]);
    expect(calls[1]).not.toHaveProperty('cancellation');
  });

  it('a replay without the definition keeps the recorded timeout and cancellation mode', async () => {
    const started = Promise.withResolvers<void>();
    const slow = activity(
      'slow',
      async (ctx) => {
        started.resolve();
        await untilStopped(ctx);
      },
      { timeout: '1h', cancellation: 'wait' },
    );
    const run = orchestration('run', async (ctx) => {
      const call = ctx.call('slow');
      const go = await ctx.waitFor('go');
      call.cancel();
      await call.catch(() => undefined);
      return go;
    });
    const { client, startWorker } = await open({ activities: [{ ...slow, defaults: {} }] });
    const first = await startWorker({
      orchestrations: [run],
      activities: [slow],
      shutdownGrace: 0,
    });
    const handle = await client.start(run);
    await started.promise;
    await first.stop();
    await startWorker({ orchestrations: [run], onNondeterminism: 'fail' });
    await handle.raiseEvent('go', 'gone');
    expect(await handle.result()).toBe('gone');
  });
});
