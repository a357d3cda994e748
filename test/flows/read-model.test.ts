import { expect, it } from 'vitest';
import { flow, gt, readFlowGraph, readFlowItems, readFlowRun } from 'perdure/flows';
import { describeEngine, modesOfFlows } from '../engine/describe-engine.ts';
import { signalled } from '../engine/signalled.ts';

const time = expect.any(Number) as number;

describeEngine(
  'readFlowRun() and readFlowItems()',
  (open) => {
    it('readFlowRun() returns the worker and times of running and ended steps', async () => {
      const runs = signalled<void>();
      const mayEnd = signalled<void>();
      const work = flow('work')
        .step('slow', async () => {
          runs.resolve();
          await mayEnd.promise;
          return [1, 2];
        })
        .map('each', { over: ({ slow }) => slow }, (_ctx, n) => n)
        .reduce('sum', { over: ({ each }) => each, initial: 0 }, (_ctx, sum, n) => sum + n)
        .step('last', { needs: ['sum'] }, () => {
          throw new Error('no');
        })
        .output();
      const { client } = await open({ flows: [work], name: 'north' });
      const run = await client.runFlow(work);
      await runs.promise;
      const [slow, each] = (await readFlowRun(client, run.id))?.steps ?? [];
      expect(slow).toMatchObject({
        status: 'running',
        worker: 'north',
        queuedAt: time,
        startedAt: time,
      });
      expect(slow).not.toHaveProperty('endedAt');
      expect(each).toEqual({ name: 'each', kind: 'map', status: 'pending' });
      mayEnd.resolve();
      await expect(run.result()).rejects.toMatchObject({ failure: { code: 'STEP_FAILED' } });
      const after = (await readFlowRun(client, run.id))?.steps ?? [];
      expect(after.map(({ name, status, worker }) => [name, status, worker])).toEqual([
        ['slow', 'completed', 'north'],
        ['each', 'completed', undefined],
        ['sum', 'completed', 'north'],
        ['last', 'failed', 'north'],
      ]);
      const { items } = await readFlowItems(client, run.id, 'each');
      expect(items.map(({ worker }) => worker)).toEqual(['north', 'north']);
      for (const { queuedAt, startedAt, endedAt } of [...after, ...items]) {
        expect(startedAt).toBeGreaterThanOrEqual(queuedAt ?? Infinity);
        expect(endedAt).toBeGreaterThanOrEqual(startedAt ?? Infinity);
      }
    });

    it('readFlowGraph() has the states of readFlowRun(), with edges and without outputs', async () => {
      const work = flow('graph')
        .step('list', { retry: { maxAttempts: 2, initialDelay: 1 } }, (ctx) => {
          if (ctx.attempt === 1) throw new Error('once more');
          return [1, 2, 3];
        })
        .map('each', { over: ({ list }) => list }, (_ctx, n) => n)
        .reduce('sum', { over: ({ each }) => each, initial: 0 }, (_ctx, sum, n) => sum + n)
        .step('large', { needs: ['sum'], when: ({ sum }) => gt(sum, 100) }, () => 'large')
        .step('last', { after: ['large'] }, () => {
          throw new Error('no');
        })
        .output();
      const { client } = await open({ flows: [work] });
      const run = await client.runFlow(work);
      await expect(run.result()).rejects.toMatchObject({ failure: { code: 'STEP_FAILED' } });
      const graph = await readFlowGraph(client, run.id);
      const steps = (await readFlowRun(client, run.id))?.steps ?? [];
      const statesOf = (list: readonly object[]): readonly object[] =>
        (list as readonly Record<string, unknown>[]).map((step) => {
          const { output: _, failure: __, when: ___, ...state } = step;
          return state;
        });
      expect(statesOf(graph?.nodes ?? [])).toEqual(statesOf(steps));
      expect(graph?.nodes.map(({ status, attempts }) => [status, attempts])).toEqual([
        ['completed', 2],
        ['completed', undefined],
        ['completed', 1],
        ['skipped', undefined],
        ['failed', 1],
      ]);
      expect(graph?.nodes.at(-1)?.failure).toEqual({ name: 'Error', message: 'no' });
      expect(graph?.edges).toEqual([
        { from: 'list', to: 'each', kind: 'over' },
        { from: 'each', to: 'sum', kind: 'over', streamed: true },
        { from: 'sum', to: 'large', kind: 'needs' },
        { from: 'sum', to: 'large', kind: 'when' },
        { from: 'large', to: 'last', kind: 'after' },
      ]);
      expect(JSON.stringify(graph)).not.toContain('output":[1');
      expect(await readFlowGraph(client, 'nobody')).toBeUndefined();
    });

    it('readFlowRun() returns the worker and start time of the last attempt', async () => {
      const flaky = flow('flaky')
        .step('a', { retry: { maxAttempts: 2, initialDelay: 30, jitter: 0 } }, (ctx) => {
          if (ctx.attempt === 1) throw new Error('once more');
          return 1;
        })
        .output();
      const { client } = await open({ flows: [flaky], name: 'north' });
      const run = await client.runFlow(flaky);
      await run.result();
      const [a] = (await readFlowRun(client, run.id))?.steps ?? [];
      expect(a).toMatchObject({ status: 'completed', attempts: 2, worker: 'north' });
      expect(a?.startedAt).toBeGreaterThanOrEqual((a?.queuedAt ?? Infinity) + 30);
    });
  },
  modesOfFlows,
);
