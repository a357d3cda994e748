import { expect, it } from 'vitest';
import type { StartedHandle } from '../../src/client/handle.ts';
import { isPerdureError } from '../../src/model/failures/errors.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { isolatedTask, task } from '../../src/tasks/task.ts';
import type { BatchRun } from '../../src/tasks/batch.ts';
import { describeEngine, modesWithoutTurns } from '../engine/describe-engine.ts';
import { aborted, makeGate } from './gate.ts';

type NumberRun = BatchRun<number, number>;

/** Requests for runs with the inputs. */
function requestsOf<Task>(task: Task, inputs: readonly number[]) {
  return inputs.map((input) => ({ task, input }));
}

/** The settled results of runs: their output, or the code of their failure. */
function outcomesOf(handles: readonly { result(): Promise<unknown> }[]): Promise<unknown[]> {
  return Promise.all(
    handles.map((handle) =>
      handle.result().catch((error: unknown) => {
        if (!isPerdureError(error)) throw error;
        const { failure } = error as { failure?: { code?: string; message: string } };
        return failure?.code ?? failure?.message ?? error.code;
      }),
    ),
  );
}

describeEngine(
  'batches',
  (open) => {
    it('the handler gets queued runs together, and returns their results in order', async () => {
      const sizes: number[] = [];
      const double = task(
        'double',
        async (ctx, runs: readonly NumberRun[]) => {
          sizes.push(runs.length);
          expect(ctx.taskName).toBe('double');
          return runs.map(({ input }) => input * 2);
        },
        { batch: { max: 3, wait: 300 } },
      );
      const engine = await open();
      const handles = await engine.client.runTasks(requestsOf(double, [1, 2, 3, 4, 5, 6, 7]));
      await engine.startWorker({ tasks: [double], activityConcurrency: 1 });
      expect(await outcomesOf(handles)).toEqual([2, 4, 6, 8, 10, 12, 14]);
      expect(sizes).toEqual([3, 3, 1]);
    });

    it('each run is settled by itself, with its own attempts and failures', async () => {
      const attempts: string[] = [];
      const check = task(
        'check',
        async (_ctx, runs: readonly NumberRun[]) => {
          for (const run of runs) {
            attempts.push(`${run.input}.${run.attempt}`);
            if (run.attempt < run.input) run.fail(new Error('not yet'));
            else run.complete(run.attempt);
            expect(run.isSettled).toBe(true);
          }
        },
        { batch: { max: 10, wait: 10 }, retry: { maxAttempts: 3, initialDelay: 1 } },
      );
      // The attempts are counted: with a lease of some 100 ms, a busy machine runs one again.
      const { client } = await open({ tasks: [check], activityLease: '30s' });
      const handles = await client.runTasks(requestsOf(check, [1, 2, 3, 4]));
      expect(await outcomesOf(handles)).toEqual([1, 2, 3, 'not yet']);
      expect(attempts.toSorted()).toEqual([
        '1.1',
        '2.1',
        '2.2',
        '3.1',
        '3.2',
        '3.3',
        '4.1',
        '4.2',
        '4.3',
      ]);
    });

    it('an error fails the runs that are not settled', async () => {
      const failed: number[] = [];
      const check = task(
        'check',
        async (_ctx, runs: readonly NumberRun[]) => {
          runs.find(({ input }) => input === 2)?.complete(20);
          throw new Error('connection lost');
        },
        {
          batch: { max: 3, wait: '1h' },
          onFail: { handler: (_ctx, { input }) => void failed.push(input) },
        },
      );
      const { client } = await open({ tasks: [check], activityConcurrency: 1 });
      const handles = await client.runTasks(requestsOf(check, [1, 2, 3]));
      expect(await outcomesOf(handles)).toEqual(['connection lost', 20, 'connection lost']);
      await expect.poll(() => failed.toSorted((a, b) => a - b), { interval: 5 }).toEqual([1, 3]);
    });

    it('a run that is neither settled nor returned fails with BATCH_RUN_UNSETTLED', async () => {
      const results: Record<string, unknown> = {
        nothing: undefined,
        short: [1],
        text: 'done',
        object: {},
      };
      const tasks = Object.entries(results).map(([name, result]) =>
        task(
          name,
          async (_ctx, [first]: readonly NumberRun[]) => {
            first?.complete(7);
            return result as undefined;
          },
          { batch: { max: 2, wait: '1h' } },
        ),
      );
      const { client } = await open({ tasks });
      for (const one of tasks) {
        const handles = await client.runTasks(requestsOf(one, [1, 2]));
        expect(await outcomesOf(handles)).toEqual([7, 'BATCH_RUN_UNSETTLED']);
      }
    });

    it('a second settlement throws BATCH_RUN_SETTLED, and one after the return OUTSIDE_HANDLER', async () => {
      const codes: unknown[] = [];
      let kept: NumberRun | undefined;
      const attempt = (call: () => void): void => {
        try {
          call();
        } catch (error) {
          codes.push(isPerdureError(error) ? error.code : error);
        }
      };
      const twice = task(
        'twice',
        async (ctx, runs: readonly NumberRun[]) => {
          [kept] = runs;
          kept?.complete(1);
          attempt(() => kept?.complete(2));
          attempt(() => kept?.fail(new Error('late')));
          await ctx
            .transaction(async () => [])
            .catch((error: unknown) => {
              codes.push(isPerdureError(error) ? error.code : error);
            });
          return [9];
        },
        { batch: { max: 1 } },
      );
      const { client } = await open({ tasks: [twice] });
      expect(await (await client.runTask(twice, 1)).result()).toBe(1);
      attempt(() => kept?.complete(3));
      expect(codes).toEqual([
        'BATCH_RUN_SETTLED',
        'BATCH_RUN_SETTLED',
        'BATCH_RUN_SETTLED',
        'OUTSIDE_HANDLER',
      ]);
    });

    it('a cancel of one run aborts its signal only; ctx.signal aborts when none is left', async () => {
      const begun = makeGate();
      const seen: string[] = [];
      const slow = task(
        'slow',
        async (ctx, runs: readonly NumberRun[]) => {
          const [first, second, third] = runs as readonly [NumberRun, NumberRun, NumberRun];
          begun.open();
          await aborted(first.signal);
          seen.push(`first canceled: ${first.isCanceled} ${second.isCanceled} ${ctx.isCanceled}`);
          second.complete(2);
          await aborted(third.signal);
          seen.push(`third canceled: ${third.isCanceled} ${ctx.isCanceled}`);
          await ctx.canceled();
        },
        { batch: { max: 3, wait: '1h' } },
      );
      const { client } = await open({ tasks: [slow] });
      const handles = await client.runTasks(requestsOf(slow, [1, 2, 3]));
      await begun.opened;
      await handles[0]?.cancel({ reason: 'not needed' });
      expect(await handles[1]?.result()).toBe(2);
      await handles[2]?.cancel({ wait: true });
      expect(await outcomesOf(handles)).toEqual(['OPERATION_CANCELED', 2, 'OPERATION_CANCELED']);
      expect(seen).toEqual(['first canceled: true false false', 'third canceled: true true']);
    });

    it('runs gather for `wait`; a canceled one leaves, and a skipped one never joins', async () => {
      const batches: number[][] = [];
      const gather = task(
        'gather',
        async (_ctx, runs: readonly NumberRun[]) => {
          batches.push(runs.map(({ input }) => input));
          return runs.map(({ input }) => input);
        },
        { batch: { max: 100, wait: 800 }, condition: (input) => input !== 2 },
      );
      const { client } = await open({ tasks: [gather] });
      const handles: StartedHandle<number>[] = [];
      for (const input of [1, 2, 3, 4]) {
        handles.push(await client.runTask(gather, input));
        await new Promise((resolve) => setTimeout(resolve, 15));
      }
      await expect
        .poll(async () => (await handles[2]?.status())?.status, { interval: 2 })
        .toBe('running');
      await handles[2]?.cancel({ wait: true });
      expect(batches).toEqual([]);
      expect(await outcomesOf(handles)).toEqual([1, 'TASK_SKIPPED', 'OPERATION_CANCELED', 4]);
      expect(batches).toEqual([[1, 4]]);
    });

    it('a batch that has as many runs as `global` allows starts without the rest of `wait`', async () => {
      const batches: number[][] = [];
      const handler = async (_ctx: unknown, runs: readonly NumberRun[]) => {
        batches.push(runs.map(({ input }) => input));
        return runs.map(({ input }) => input);
      };
      const batch = { max: 20, wait: '1h' };
      const gather = task('gather', handler, { batch, concurrency: { global: 2 } });
      const engine = await open();
      const handles = await engine.client.runTasks(requestsOf(gather, [1, 2, 3, 4, 5, 6]));
      await engine.startWorker({ tasks: [gather] });
      expect(await outcomesOf(handles)).toEqual([1, 2, 3, 4, 5, 6]);
      expect(batches.map((one) => one.length)).toEqual([2, 2, 2]);
    });

    it('a batch below `global` gathers for `wait`, and perWorker counts batches', async () => {
      const sizes: number[] = [];
      let running = 0;
      let most = 0;
      const gather = task(
        'gather',
        async (_ctx, runs: readonly NumberRun[]) => {
          running += 1;
          most = Math.max(most, running);
          sizes.push(runs.length);
          await new Promise((resolve) => setTimeout(resolve, 20));
          running -= 1;
          return runs.map(({ input }) => input);
        },
        { batch: { max: 3, wait: 300 }, concurrency: { global: 8, perWorker: 1 } },
      );
      const engine = await open();
      const handles = await engine.client.runTasks(requestsOf(gather, [1, 2, 3, 4, 5, 6, 7]));
      await engine.startWorker({ tasks: [gather] });
      expect(await outcomesOf(handles)).toEqual([1, 2, 3, 4, 5, 6, 7]);
      expect(sizes).toEqual([3, 3, 1]);
      expect(most).toBe(1);
    });

    it('a batch that gathers holds its places, and frees them when its handler returns', async () => {
      const gate = makeGate();
      const gather = task(
        'gather',
        async (_ctx, runs: readonly NumberRun[]) => {
          await gate.opened;
          return runs.map(({ input }) => input);
        },
        { batch: { max: 2, wait: '1h' }, concurrency: { global: 3 } },
      );
      const { client } = await open({ tasks: [gather] });
      const handles = await client.runTasks(requestsOf(gather, [1, 2, 3, 4]));
      const figures = async () => {
        const found = await client.limits.get('gather');
        return [found?.running, found?.waiting];
      };
      // Two runs in the handler, one in the next batch.
      await expect.poll(figures).toEqual([3, 1]);
      gate.open();
      expect(await outcomesOf(handles)).toEqual([1, 2, 3, 4]);
      await expect.poll(figures).toEqual([0, 0]);
    });

    it('a stop hands gathered runs back unstarted', async () => {
      const attempts: number[] = [];
      const define = (wait: number | string) =>
        task(
          'gather',
          async (_ctx, runs: readonly NumberRun[]) => {
            for (const { attempt } of runs) attempts.push(attempt);
            return runs.map(({ input }) => input);
          },
          { batch: { max: 100, wait } },
        );
      const gather = define('1h');
      const engine = await open();
      const worker = await engine.startWorker({ tasks: [gather], shutdownGrace: '1h' });
      const handles = await engine.client.runTasks(requestsOf(gather, [1, 2]));
      const statuses = () =>
        Promise.all(handles.map(async (handle) => (await handle.status()).status));
      await expect.poll(statuses, { interval: 2 }).toEqual(['running', 'running']);
      await worker.stop();
      expect(await statuses()).toEqual(['pending', 'pending']);
      await engine.startWorker({ tasks: [define(0)] });
      expect(await outcomesOf(handles)).toEqual([1, 2]);
      expect(attempts).toEqual([1, 1]);
    });

    it('a stop aborts ctx.signal after the grace, and hands the runs back', async () => {
      const begun = makeGate();
      const triggers: unknown[] = [];
      let calls = 0;
      const slow = task(
        'slow',
        async (ctx, runs: readonly NumberRun[]) => {
          calls += 1;
          if (calls > 1) return runs.map(({ attempt }) => attempt);
          begun.open();
          const { trigger } = await ctx.canceled();
          triggers.push(trigger);
          return ctx.throwIfCanceled();
        },
        { batch: { max: 2, wait: 20 } },
      );
      const engine = await open();
      const worker = await engine.startWorker({ tasks: [slow], shutdownGrace: 10 });
      const handles = await engine.client.runTasks(requestsOf(slow, [1, 2]));
      await begun.opened;
      await worker.stop();
      await engine.startWorker({ tasks: [slow] });
      expect(await outcomesOf(handles)).toEqual([1, 1]);
      expect(triggers).toEqual(['shutdown']);
    });

    it('the timeout counts from the call of the handler, for each run', async () => {
      const slow = task(
        'slow',
        async (_ctx, runs: readonly NumberRun[]) => {
          for (const run of runs)
            if (run.input === 1 || run.attempt === 2) run.complete(run.attempt);
          await Promise.all(runs.filter((run) => !run.isSettled).map((run) => aborted(run.signal)));
        },
        {
          batch: { max: 3, wait: 150 },
          attemptTimeout: 60,
          retry: { maxAttempts: 2, initialDelay: 1 },
        },
      );
      const { client } = await open({ tasks: [slow] });
      const handles = await client.runTasks(requestsOf(slow, [1, 2]));
      expect(await outcomesOf(handles)).toEqual([1, 2]);
    });

    it('a batch takes one slot, and `concurrency` counts batches', async () => {
      let running = 0;
      const peaks: number[] = [];
      const insert = task(
        'insert',
        async (_ctx, runs: readonly NumberRun[]) => {
          running += 1;
          peaks.push(running);
          await new Promise((resolve) => setTimeout(resolve, 5));
          running -= 1;
          return runs.map(() => runs.length);
        },
        { batch: { max: 20, wait: '1h' }, concurrency: 1 },
      );
      const other = task('other', () => 'ran');
      const engine = await open();
      const handles = await engine.client.runTasks(
        requestsOf(
          insert,
          Array.from({ length: 60 }, (_, index) => index),
        ),
      );
      await engine.startWorker({ tasks: [insert, other], activityConcurrency: 2 });
      expect(await (await engine.client.runTask(other)).result()).toBe('ran');
      expect(await outcomesOf(handles)).toEqual(Array.from({ length: 60 }, () => 20));
      expect(Math.max(...peaks)).toBe(1);
    });

    it('a run at its third claim is alone in its batch', async () => {
      const batches: number[][] = [];
      const work = task(
        'work',
        async (_ctx, runs: readonly NumberRun[]) => {
          batches.push(runs.map(({ input }) => input));
          return runs.map(({ input }) => input);
        },
        { batch: { max: 10, wait: 30 } },
      );
      const engine = await open();
      const handles = await engine.client.runTasks(requestsOf(work, [1, 2, 3]));
      await engine.tamper(
        `UPDATE worker_queue SET claims = 2 WHERE instance_key = (SELECT max(instance_key) FROM worker_queue)`,
      );
      await engine.startWorker({ tasks: [work] });
      expect(await outcomesOf(handles)).toEqual([1, 2, 3]);
      expect(batches.toSorted((one, two) => two.length - one.length)).toEqual([[1, 2], [3]]);
    });

    it('runs of clients and calls of orchestrations share a batch', async () => {
      const batches: number[][] = [];
      const double = task(
        'double',
        async (_ctx, runs: readonly NumberRun[]) => {
          batches.push(runs.map(({ input }) => input));
          return runs.map(({ input }) => input * 2);
        },
        { batch: { max: 3, wait: '1h' } },
      );
      const flow = orchestration('flow', (ctx) =>
        ctx.all([ctx.runTask(double, 1), ctx.runTask(double, 2)]),
      );
      const { client } = await open({ orchestrations: [flow], tasks: [double] });
      const instance = await client.start(flow);
      const run = await client.runTask(double, 3);
      expect(await run.result()).toBe(6);
      expect(await instance.result()).toEqual([2, 4]);
      expect(batches.map((inputs) => inputs.toSorted((a, b) => a - b))).toEqual([[1, 2, 3]]);
    });

    it('an output of a canceled run is passed to onAbandoned', async () => {
      const begun = makeGate();
      const dropped = makeGate<number>();
      const slow = task(
        'slow',
        async (_ctx, runs: readonly NumberRun[]) => {
          begun.open();
          for (const run of runs) {
            await aborted(run.signal);
            run.complete(run.input);
          }
        },
        { batch: { max: 1 }, onAbandoned: (output) => dropped.open(output) },
      );
      const { client } = await open({ tasks: [slow] });
      const handle = await client.runTask(slow, 5);
      await begun.opened;
      await handle.cancel({ wait: true });
      expect(await dropped.opened).toBe(5);
    });
  },
  modesWithoutTurns.filter((mode) => mode !== 'over HTTP'),
);

it('invalid batches are rejected with typed errors', () => {
  const handler = () => [];
  const codeOf = (define: () => unknown): unknown => {
    try {
      define();
      return 'defined';
    } catch (error) {
      return isPerdureError(error) ? error.code : error;
    }
  };
  const batches: readonly unknown[] = [
    { max: 0 },
    { max: -1 },
    { max: 1.5 },
    { max: 1_001 },
    { max: Infinity },
    { max: NaN },
    { max: '10' },
    {},
    { max: 10, wait: '2h' },
    { max: 10, size: 1 },
    10,
    null,
  ];
  for (const batch of batches) {
    expect(codeOf(() => task('t', handler, { batch: batch as never }))).toBe('INVALID_OPTION');
  }
  for (const wait of [-1, NaN, Infinity, 'soon', '', {}, null]) {
    expect(codeOf(() => task('t', handler, { batch: { max: 1, wait: wait as never } }))).toBe(
      'INVALID_DURATION',
    );
  }
  expect(task('t', handler, { batch: { max: 1_000, wait: 0.5 } }).batch).toMatchObject({
    max: 1_000,
    waitMs: 1,
  });
  expect(task('t', handler, { batch: { max: 1 } }).batch).toMatchObject({ max: 1, waitMs: 0 });
  const module = new URL('./isolated-handlers.ts', import.meta.url);
  const isolated = { batch: { max: 2 } } as object;
  expect(codeOf(() => isolatedTask('t', { module }, isolated))).toBe('INVALID_OPTION');
});
