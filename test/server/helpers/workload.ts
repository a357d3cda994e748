import { activity, event, orchestration, task } from 'perdure';
import { flow } from 'perdure/flows';

const approved = event<string>('approved');

const greet = activity('greet', async (_ctx, name: string) => `Hello, ${name}!`);
const hello = orchestration('hello', (ctx, name: string) => ctx.call(greet, name));
const waits = orchestration('waits', (ctx) => ctx.waitFor(approved));
const parent = orchestration('parent', (ctx) => ctx.child(hello, 'child', { id: 'the-child' }));
const counts = orchestration('counts', (ctx, left: number) =>
  left === 0 ? 'done' : ctx.continueAsNew(left - 1),
);
const fails = orchestration('fails', () => {
  throw new Error('It went wrong.', { cause: new Error('the cause') });
});
const updated = orchestration('updated', async (ctx) => {
  ctx.onUpdate('add', { handle: (value) => Number(value) + 1 });
  ctx.onUpdate('hold', { handle: () => ctx.waitFor('go') });
  await ctx.waitFor(approved);
});
const woken = orchestration('woken', async (ctx) => {
  const both = [ctx.awakeable(), ctx.awakeable()] as const;
  ctx.setCustomStatus(both.map(({ token }) => token));
  const describe = (error: { readonly code: string }) => error.code;
  return [await both[0].promise.catch(describe), await both[1].promise.catch(describe)];
});
const double = task('double', async (_ctx, n: number) => n * 2);
const endless = task(
  'endless',
  ({ signal }) =>
    new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    }),
);
const emits = task('emits', async (ctx, count: number) => {
  for (let n = 1; n <= count; n += 1) await ctx.emit({ n });
  return count;
});

/** A flow with a map and a signal. */
export const review = flow('review')
  .input<readonly number[]>()
  .map('doubled', { over: ({ input }) => input }, (_ctx, n) => n * 2)
  .step('reviewed', { needs: ['doubled'], signal: approved }, (_ctx, { doubled, signal }) => ({
    doubled,
    signal,
  }))
  .output('reviewed');

/** One definition of each kind that a server can run. */
export const workload = {
  orchestrations: [hello, waits, parent, counts, fails, updated, woken],
  activities: [greet],
  tasks: [double, endless, emits],
  flows: [review],
};
