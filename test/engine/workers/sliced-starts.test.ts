import { expect, it } from 'vitest';
import { activity } from '../../../src/orchestration/activity.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { task } from '../../../src/tasks/task.ts';
import { describeEngine } from '../describe-engine.ts';
import { signalled } from '../signalled.ts';

const count = 400;
const numbers = Array.from({ length: count }, (_, index) => index);

/** Blocks the event loop, like a handler that parses or renders. */
function compute(ms: number): void {
  for (const endsAt = performance.now() + ms; performance.now() < endsAt;);
}

/** A handler that counts its calls. `first` resolves at the first one. */
function countedHandler() {
  const first = signalled<void>();
  let calls = 0;
  const handler = (): void => {
    calls += 1;
    first.resolve();
    compute(5);
  };
  return { handler, first: first.promise, calls: () => calls };
}

describeEngine(
  'starts after cancel, terminate or delete',
  (open) => {
    const stops = ['cancel', 'terminate', 'delete'] as const;

    it.each(stops)(
      'no activity starts after %s() resolves, which does not wait for the batch',
      async (stop) => {
        const { handler, first, calls } = countedHandler();
        const work = activity('work', handler);
        const run = orchestration('run', async (ctx) => {
          await ctx.all(numbers.map(() => ctx.call(work)));
        });
        const { client, perdure } = await open({
          orchestrations: [run],
          activities: [work],
          activityConcurrency: count,
        });
        const handle = await client.start(run, undefined, { id: 'i' });
        await first;
        if (stop === 'delete') await client.deleteInstance('i', { force: true });
        else await handle[stop]();
        const atStop = calls();
        expect(atStop).toBeLessThan(count);
        await perdure.close();
        expect(calls()).toBe(atStop);
      },
    );

    it('no task of a claimed batch starts after cancel() has resolved', async () => {
      const { handler, first, calls } = countedHandler();
      const work = task('work', handler);
      const { client, perdure, startWorker } = await open();
      const handles = await Promise.all(numbers.map(() => client.runTask(work)));
      await startWorker({ tasks: [work], activityConcurrency: count });
      await first;
      await Promise.all(handles.map((handle) => handle.cancel()));
      const atStop = calls();
      expect(atStop).toBeLessThan(count);
      await perdure.close();
      expect(calls()).toBe(atStop);
    });
  },
  ['all fast paths', 'no fast paths', 'PostgreSQL'],
);
