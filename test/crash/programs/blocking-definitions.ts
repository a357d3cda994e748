import { activity, orchestration, task } from '../../../src/index.ts';

function spin(): never {
  for (;;);
}

const step = activity('step', async () => 'done');

/** Code that blocks the event loop forever, unless it is fixed. */
export function createBlocking(isMended: boolean) {
  const loop = (): string => (isMended ? 'continued' : spin());
  return {
    orchestrations: [
      /** Loops in its first turn, which a worker claims after a client without a worker has started it. */
      orchestration('loops-at-first', async () => loop()),
      /** Loops after an activity: in memory, in the worker that ran the activity. */
      orchestration('loops-later', async (ctx) => {
        await ctx.call(step);
        return loop();
      }),
      orchestration('hello', async (ctx) => ctx.call(step)),
    ],
    activities: [step],
    tasks: [
      task('computes', (_ctx, ms: number) => {
        for (const endsAt = Date.now() + ms; Date.now() < endsAt;);
        return 'computed';
      }),
      task('computes-later', async (_ctx, ms: number) => {
        await Promise.resolve();
        for (const endsAt = Date.now() + ms; Date.now() < endsAt;);
        return 'computed';
      }),
    ],
  };
}
