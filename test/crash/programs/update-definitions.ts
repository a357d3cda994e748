import { activity, event, orchestration, update } from '../../../src/index.ts';

export const draw = update<{ readonly slow: boolean }, number>('draw');
export const stop = event('stop');
const pause = activity('pause', async () => undefined);

/** Numbers its updates 1, 2, 3, … over all executions. Some handlers await an activity before they take the number. */
const numbers = orchestration('numbers', async (ctx, from: { readonly last: number }) => {
  let { last } = from;
  let handled = 0;
  const { promise: isFull, resolve } = Promise.withResolvers<'full'>();
  ctx.onUpdate(draw, {
    handle: async ({ slow }) => {
      if (slow) await ctx.call(pause);
      last += 1;
      handled += 1;
      if (handled === 15) resolve('full');
      return last;
    },
  });
  const stopped = ctx.waitFor(stop);
  const first = await Promise.race([stopped, isFull]);
  await ctx.updatesSettled();
  if (first === 'full') await ctx.continueAsNew({ last });
  return last;
});

export const definitions = { orchestrations: [numbers], activities: [pause] };
