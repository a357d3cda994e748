import { expect, it } from 'vitest';
import { Perdure } from '../../src/perdure.ts';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import type { BatchRun } from '../../src/tasks/batch.ts';
import { task } from '../../src/tasks/task.ts';
import { overrideProvider } from '../crash/override-provider.ts';
import { makeGate } from './gate.ts';

type NumberRun = BatchRun<number, number>;

it('a worker claims at most `max` runs for a batch, and acks it with one call of the store', async () => {
  const store = await openSqlite({ path: ':memory:' });
  const acks: number[] = [];
  let claimed = 0;
  const provider = overrideProvider(store, {
    fetchWorkItems: async (params) => {
      const items = await store.fetchWorkItems(params);
      claimed += items.length;
      return items;
    },
    ackWorkItems: (items) => {
      acks.push(items.length);
      return store.ackWorkItems(items);
    },
  });
  const begun = makeGate();
  const release = makeGate();
  const insert = task(
    'insert',
    async (_ctx, runs: readonly NumberRun[]) => {
      begun.open();
      await release.opened;
      return runs.map(({ input }) => input);
    },
    { batch: { max: 40, wait: '1h' } },
  );
  await using perdure = await Perdure.open(provider);
  const { client } = perdure;
  const handles = await client.runTasks(
    Array.from({ length: 200 }, (_, input) => ({ task: insert, input })),
  );
  await perdure.startWorker({ tasks: [insert], activityConcurrency: 2 });
  await begun.opened;
  await expect.poll(() => claimed, { interval: 5 }).toBe(80);
  expect(acks).toEqual([]);
  release.open();
  await Promise.all(handles.map((handle) => handle.result()));
  expect(claimed).toBe(200);
  // Batches that end in the same event loop iteration share a call.
  expect(acks[0]).toBe(80);
  expect(acks.every((count) => count % 40 === 0)).toBe(true);
});

it('middleware, hooks and heartbeats are those of each run', async () => {
  const calls: string[] = [];
  const heartbeats: unknown[] = [];
  const batches: number[] = [];
  const work = task(
    'work',
    async (_ctx, runs: readonly NumberRun[]) => {
      batches.push(runs.length);
      for (const run of runs) {
        if (run.attempt === 2) heartbeats.push(run.lastHeartbeat);
        run.heartbeat({ of: run.input });
        if (run.input === 2 && run.attempt === 1) run.fail(new Error('again'));
        else run.complete(run.input);
      }
    },
    { batch: { max: 3, wait: 500 }, retry: { maxAttempts: 2, initialDelay: 1 } },
  );
  await using perdure = await Perdure.open(':memory:');
  perdure.use({
    task: async ({ input, attempt }, next) => {
      // The handler is called once all of them have called next().
      if (input === 1) await new Promise((resolve) => setTimeout(resolve, 20));
      if (input === 3) return 30;
      const result = await next();
      calls.push(`${String(input)}.${attempt}`);
      return result;
    },
  });
  const ended: string[] = [];
  await perdure.startWorker({
    tasks: [work],
    hooks: {
      attemptEnded: ({ attempt, outcome, durationMs }) => {
        ended.push(`${attempt} ${outcome} ${durationMs < 450}`);
      },
    },
  });
  const handles = await perdure.client.runTasks([1, 2, 3].map((input) => ({ task: work, input })));
  const results = await Promise.all(handles.map((handle) => handle.result()));
  expect(results).toEqual([1, 2, 30]);
  expect(calls).toEqual(['1.1', '2.2']);
  expect(batches).toEqual([2, 1]);
  expect(heartbeats).toEqual([{ of: 2 }]);
  expect(ended.toSorted()).toEqual([
    '1 completed true',
    '1 completed true',
    '1 retried true',
    '2 completed true',
  ]);
});

it('a handler that settles its runs and does not return frees its slot after the grace', async () => {
  const warnings: string[] = [];
  const logger = {
    debug: () => undefined,
    info: () => undefined,
    warn: (_fields: object, message: string) => void warnings.push(message),
    error: () => undefined,
  };
  const stuck = task(
    'stuck',
    async (_ctx, runs: readonly NumberRun[]) => {
      for (const run of runs) run.complete(run.input);
      await new Promise(() => undefined);
    },
    { batch: { max: 1 } },
  );
  await using perdure = await Perdure.open(':memory:', { logger });
  await perdure.startWorker({ tasks: [stuck], activityConcurrency: 1, cancelGrace: 20 });
  const handles = await perdure.client.runTasks([1, 2].map((input) => ({ task: stuck, input })));
  expect(await Promise.all(handles.map((handle) => handle.result()))).toEqual([1, 2]);
  expect(warnings).toContain(
    'batch handler still runs after its runs have ended, its slot is freed',
  );
});
