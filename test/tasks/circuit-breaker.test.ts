import { expect, it } from 'vitest';
import { task } from '../../src/tasks/task.ts';
import { describeEngine, modesWithoutTurns } from '../engine/describe-engine.ts';
import { aborted, makeGate } from './gate.ts';

describeEngine(
  'circuit breakers',
  (open) => {
    const circuitBreaker = { failures: 2, openFor: 150 };

    it('an open breaker pauses its task, probes once and closes on success', async () => {
      const calls: number[] = [];
      const call = task(
        'call',
        () => {
          calls.push(performance.now());
          if (calls.length <= 2) throw new Error('down');
        },
        { circuitBreaker, concurrency: 1, retry: { maxAttempts: 100, initialDelay: 1 } },
      );
      const other = task('other', () => 'unhindered');
      const { client } = await open({ tasks: [call, other] });
      const handles = await client.runTasks(Array.from({ length: 5 }, () => ({ task: call })));
      await expect.poll(() => calls.length, { interval: 2 }).toBeGreaterThanOrEqual(2);
      expect(await (await client.runTask(other)).result()).toBe('unhindered');
      await Promise.all(handles.map((handle) => handle.result()));
      const [, second = 0, probe = 0] = calls;
      expect(probe - second).toBeGreaterThanOrEqual(140);
      expect(calls).toHaveLength(7);
    });

    it('a run that waits for a breaker uses neither an attempt nor a claim', async () => {
      const attempts = new Map<string, number>();
      const call = task(
        'call',
        (ctx) => {
          attempts.set(ctx.runId, ctx.attempt);
          if (ctx.runId === 'first' && ctx.attempt === 1) throw new Error('down');
        },
        {
          circuitBreaker: { failures: 1, openFor: 60 },
          retry: { maxAttempts: 3, initialDelay: 1 },
        },
      );
      const { client } = await open({ tasks: [call], maxClaims: 2, activityConcurrency: 1 });
      const first = await client.runTask(call, undefined, { id: 'first' });
      await expect.poll(() => attempts.size, { interval: 2 }).toBe(1);
      const others = await client.runTasks(Array.from({ length: 8 }, () => ({ task: call })));
      await Promise.all([first, ...others].map((handle) => handle.result()));
      expect(attempts.get('first')).toBe(2);
      for (const { id } of others) expect(attempts.get(id)).toBe(1);
    });

    it('a canceled probe does not keep the breaker open', async () => {
      const probing = makeGate();
      let calls = 0;
      const call = task(
        'call',
        async (ctx) => {
          calls += 1;
          if (calls <= 2) throw new Error('down');
          if (calls > 3) return 'up';
          probing.open();
          await aborted(ctx.signal);
          return ctx.throwIfCanceled();
        },
        { circuitBreaker: { failures: 2, openFor: 20 } },
      );
      const { client } = await open({ tasks: [call], activityConcurrency: 1 });
      for (const handle of await client.runTasks([{ task: call }, { task: call }])) {
        await client.wait(handle.id);
      }
      const probe = await client.runTask(call);
      const next = await client.runTask(call);
      await probing.opened;
      await probe.cancel();
      expect(await next.result()).toBe('up');
      expect(await client.wait(probe.id)).toMatchObject({ status: 'canceled' });
    });

    it('onFail does not queue behind the runs that its breaker delays', async () => {
      const told = makeGate();
      let calls = 0;
      const call = task(
        'call',
        () => {
          calls += 1;
          throw new Error('down');
        },
        {
          circuitBreaker: { failures: 1, openFor: 50 },
          onFail: { handler: () => told.open() },
        },
      );
      const { client } = await open({ tasks: [call], activityConcurrency: 1 });
      await client.runTasks(Array.from({ length: 40 }, () => ({ task: call })));
      await told.opened;
      expect(calls).toBeLessThan(5);
    });

    it('onFail runs although the breaker of its task is open', async () => {
      const told: string[] = [];
      const call = task(
        'call',
        () => {
          throw new Error('down');
        },
        {
          concurrency: 2,
          circuitBreaker: { failures: 2, openFor: '1h' },
          onFail: { handler: (ctx) => void told.push(ctx.runId) },
        },
      );
      const { client } = await open({ tasks: [call] });
      const handles = await client.runTasks(
        Array.from({ length: 5 }, () => ({ task: call, options: { expiresIn: '2h' } })),
      );
      await expect.poll(() => told.length, { interval: 5 }).toBe(2);
      const runs = await Promise.all(handles.map((handle) => handle.status()));
      const failed = runs.filter(({ status }) => status === 'failed').map(({ id }) => id);
      expect(new Set(told)).toEqual(new Set(failed));
      expect(runs.filter(({ status }) => status === 'pending')).toHaveLength(3);
    });
  },
  modesWithoutTurns,
);
