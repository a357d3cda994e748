import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { activity } from '../../src/orchestration/activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
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
  },
  ['all fast paths', 'no fast paths', 'PostgreSQL'],
);
