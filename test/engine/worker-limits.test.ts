import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { activity } from '../../src/orchestration/activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { task } from '../../src/tasks/task.ts';
import { makeGate } from '../tasks/gate.ts';
import { describeEngine } from './describe-engine.ts';

describeEngine(
  'limits per worker',
  (open) => {
    it('`concurrency` of an activity bounds its handlers in one worker, not those of others', async () => {
      let running = 0;
      const peaks: number[] = [];
      const limited = activity(
        'limited',
        async (_ctx, input: number) => {
          running += 1;
          peaks.push(running);
          await delay(3);
          running -= 1;
          return input;
        },
        { concurrency: { perWorker: 2 } },
      );
      let others = 0;
      const other = activity('other', () => {
        others += 1;
        return running;
      });
      const flow = orchestration('flow', (ctx) =>
        ctx.all([
          ...Array.from({ length: 12 }, (_, index) => ctx.call(limited, index)),
          ...Array.from({ length: 4 }, () => ctx.call(other)),
        ]),
      );
      const { client } = await open({
        orchestrations: [flow],
        activities: [limited, other],
        activityConcurrency: 8,
      });
      const results = await (await client.start(flow)).result();
      expect(results.slice(0, 12)).toEqual(Array.from({ length: 12 }, (_, index) => index));
      expect(Math.max(...peaks)).toBe(2);
      expect(others).toBe(4);
    });

    it.each([
      ['perWorker: 2', { perWorker: 2 }, 4, 2],
      ['perWorker: 2 and global: 3', { perWorker: 2, global: 3 }, 3, 2],
      ['perWorker: 1 and global: 8', { perWorker: 1, global: 8 }, 2, 1],
    ] as const)(
      'two workers together run what %s allows',
      async (_title, concurrency, together, perWorker) => {
        const gate = makeGate();
        const peaks = [0, 0];
        const running = [0, 0];
        const total = (counts: readonly number[]) => counts.reduce((sum, count) => sum + count, 0);
        let mostTogether = 0;
        // Each worker has a handler of its own.
        const taskOf = (worker: 0 | 1) =>
          task(
            'limited',
            async (_ctx, input: number) => {
              running[worker] = (running[worker] ?? 0) + 1;
              peaks[worker] = Math.max(peaks[worker] ?? 0, running[worker]);
              mostTogether = Math.max(mostTogether, total(running));
              await gate.opened;
              // Others start while it runs.
              await delay(3);
              running[worker] -= 1;
              return input;
            },
            { concurrency },
          );
        const [first, second] = [taskOf(0), taskOf(1)];
        const inputs = Array.from({ length: 12 }, (_, index) => index);
        const engine = await open({ tasks: [first], activityConcurrency: 8 });
        await engine.startWorker({ tasks: [second], activityConcurrency: 8 });
        const runs = await engine.client.runTasks(inputs.map((input) => ({ task: first, input })));
        await expect.poll(() => total(running)).toBe(together);
        gate.open();
        expect(await Promise.all(runs.map((run) => run.result()))).toEqual(inputs);
        expect(mostTogether).toBe(together);
        expect(Math.max(...peaks)).toBe(perWorker);
      },
    );
  },
  ['all fast paths', 'no fast paths', 'PostgreSQL'],
);
