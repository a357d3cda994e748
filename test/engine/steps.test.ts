import { setTimeout } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { event } from '../../src/index.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import type { StepContext } from '../../src/orchestration/steps.ts';
import { describeEngine } from './describe-engine.ts';

/** Resolves when the signal of a step aborts, with the trigger. */
function aborted(step: StepContext): Promise<string> {
  return new Promise((resolve) => {
    const done = (): void => resolve((step.signal.reason as { trigger: string }).trigger);
    if (step.signal.aborted) done();
    else step.signal.addEventListener('abort', done, { once: true });
  });
}

describeEngine('steps', (open) => {
  it('records the results of steps in sequence and in parallel', async () => {
    let calls = 0;
    const run = orchestration('run', async (ctx, count: number) => {
      let sum = 0;
      for (let index = 0; index < count; index++) {
        sum += await ctx.run('add', async (step) => {
          calls += 1;
          return step.attempt + index;
        });
      }
      const parts = await ctx.all([1, 2, 3].map((part) => ctx.run(`part ${part}`, () => part)));
      return [sum, ...parts];
    });
    const { client } = await open({ orchestrations: [run] });
    const handle = await client.start(run, 5);
    expect(await handle.result()).toEqual([15, 1, 2, 3]);
    expect(calls).toBe(5);
  });

  it('steps with the same name in parallel keep their own results, also in a replay', async () => {
    const runs: number[] = [];
    const run = orchestration('run', async (ctx) => {
      const twins = await ctx.all(
        [10, 20].map((value) =>
          ctx.run('twin', async (step) => {
            // The second ends first.
            await setTimeout(value === 10 ? 30 : 1);
            runs.push(value);
            return `${value} ${step.idempotencyKey.split('.').at(-1)}`;
          }),
        ),
      );
      await ctx.sleep(5);
      return twins;
    });
    const { client } = await open({ orchestrations: [run], warmCacheBytes: 0 });
    expect(await (await client.start(run)).result()).toEqual(['10 1', '20 2']);
    expect(runs).toEqual([20, 10]);
  });

  it('a failed step rejects with STEP_FAILED and its cause', async () => {
    const run = orchestration('run', async (ctx) => {
      try {
        return await ctx.run('boom', () => {
          throw new RangeError('too far');
        });
      } catch (error) {
        const { code, message, cause } = error as Error & { code: string; cause: Error };
        return { code, message, cause: cause.name };
      }
    });
    const { client } = await open({ orchestrations: [run] });
    expect(await (await client.start(run, undefined)).result()).toEqual({
      code: 'STEP_FAILED',
      message: "Step 'boom' failed: too far",
      cause: 'RangeError',
    });
  });

  it('retries a step with back-off, without holding its claim', async () => {
    const attempts: number[] = [];
    const keys = new Set<string>();
    const run = orchestration('run', async (ctx) =>
      ctx.run(
        'flaky',
        (step) => {
          attempts.push(step.attempt);
          keys.add(step.idempotencyKey);
          if (step.attempt < 3) throw new Error('again');
          return 'done';
        },
        { retry: { maxAttempts: 3, initialDelay: 20, backoff: 'fixed' } },
      ),
    );
    const { client } = await open({ orchestrations: [run] });
    const handle = await client.start(run, undefined, { id: 'x' });
    expect(await handle.result()).toBe('done');
    expect(attempts).toEqual([1, 2, 3]);
    expect(keys.size).toBe(1);
  });

  it('an event that arrives while a step runs wins a race, and aborts the step', async () => {
    const stop = event<string>('stop');
    let trigger: string | undefined;
    const started = Promise.withResolvers<void>();
    const run = orchestration('run', async (ctx) =>
      ctx.race([
        ctx.run('long', async (step) => {
          started.resolve();
          trigger = await aborted(step);
          return 'step';
        }),
        ctx.waitFor(stop),
      ]),
    );
    const { client } = await open({ orchestrations: [run] });
    const handle = await client.start(run, undefined);
    await started.promise;
    await client.raiseEvent(handle.id, stop, 'event');
    expect(await handle.result()).toBe('event');
    await expect.poll(() => trigger).toBe('race_lost');
  });

  it('a cancel aborts the signal of a running step, and clean-up in a shield runs', async () => {
    let trigger: string | undefined;
    let cleaned = false;
    const started = Promise.withResolvers<void>();
    const run = orchestration('run', async (ctx) => {
      try {
        await ctx.run('long', async (step) => {
          started.resolve();
          trigger = await aborted(step);
        });
      } finally {
        await ctx.shield(() =>
          ctx.run('clean', () => {
            cleaned = true;
          }),
        );
      }
    });
    const { client } = await open({ orchestrations: [run] });
    const handle = await client.start(run, undefined);
    await started.promise;
    await handle.cancel({ reason: 'enough' });
    await expect(handle.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
    expect(trigger).toBe('cancel');
    expect(cleaned).toBe(true);
  });

  it('a timer fires while a step runs', async () => {
    const run = orchestration('run', async (ctx) => {
      const step = ctx.run('slow', () => setTimeout(80, 'slow'));
      await ctx.sleep(10);
      const first = ctx.now();
      const result = await step;
      return [result, ctx.now() > first];
    });
    const { client } = await open({ orchestrations: [run] });
    expect(await (await client.start(run, undefined)).result()).toEqual(['slow', true]);
  });

  it('the timeout of a step aborts it and fails it with TIMEOUT', async () => {
    const run = orchestration('run', async (ctx) => {
      try {
        return await ctx.run('endless', aborted, { timeout: 30 });
      } catch (error) {
        return (error as { code: string }).code;
      }
    });
    const { client } = await open({ orchestrations: [run] });
    expect(await (await client.start(run, undefined)).result()).toBe('TIMEOUT');
  });

  it('an attempt of a step beyond attemptTimeout is aborted and retried', async () => {
    const triggers: string[] = [];
    const run = orchestration('run', (ctx) =>
      ctx.run(
        'slow at first',
        async (step) => {
          if (step.attempt > 1) return `${ctx.headers['tenant']} in attempt ${step.attempt}`;
          triggers.push(await aborted(step));
          throw step.signal.reason;
        },
        { attemptTimeout: 30, retry: { maxAttempts: 2, initialDelay: 1 } },
      ),
    );
    const { client } = await open({ orchestrations: [run] });
    const handle = await client.start(run, undefined, { headers: { tenant: '7' } });
    expect(await handle.result()).toBe('7 in attempt 2');
    expect(triggers).toEqual(['timeout']);
  });

  it('a durable operation inside a step fails the step with INSIDE_STEP', async () => {
    const run = orchestration('run', async (ctx) => {
      try {
        return await ctx.run('outer', () => ctx.sleep(1));
      } catch (error) {
        return (error as { cause: { code: string } }).cause.code;
      }
    });
    const { client } = await open({ orchestrations: [run] });
    expect(await (await client.start(run, undefined)).result()).toBe('INSIDE_STEP');
  });
});
