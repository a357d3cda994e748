import { activity, orchestration, task } from '../../../src/index.ts';

function spin(): never {
  for (;;);
}

const step = activity('step', async () => 'done');

/** Code that blocks the event loop for ever, or not any more. */
export function createBlocking(isMended: boolean) {
  const loop = (): string => (isMended ? 'continued' : spin());
  return {
    orchestrations: [
      /** Loops in its first turn, which is claimed when a client without a worker has started it. */
      orchestration('loops-at-first', async () => loop()),
      /** Loops after an activity: in memory, where the worker that ran the activity keeps the instance. */
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
