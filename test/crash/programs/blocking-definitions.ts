import { activity, orchestration, task } from '../../../src/index.ts';

function spin(): never {
  for (;;);
}

const idle = new Int32Array(new SharedArrayBuffer(4));

/** Blocks the event loop without using a core, so that other tests can run meanwhile. */
function doze(ms = Infinity): void {
  for (const endsAt = Date.now() + ms; Date.now() < endsAt;) Atomics.wait(idle, 0, 0, 5);
}

const step = activity('step', async () => 'done');

/** Code that blocks the event loop forever, unless it is fixed. */
export function createBlocking(isMended: boolean) {
  const loop = (block: () => void): string => {
    if (!isMended) block();
    return 'continued';
  };
  return {
    orchestrations: [
      /** Loops in its first turn, which a worker claims after a client without a worker has started it. */
      orchestration('loops-at-first', async () => loop(doze)),
      /** Also loops in its first turn, without a call in which V8 could check for interrupts. */
      orchestration('spins-at-first', async () => loop(spin)),
      /** Loops after an activity: in memory, in the worker that ran the activity. */
      orchestration('loops-later', async (ctx) => {
        await ctx.call(step);
        return loop(doze);
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
        doze(ms);
        return 'computed';
      }),
      task('dozes', (_ctx, ms: number) => {
        doze(ms);
        return 'computed';
      }),
    ],
  };
}
