import { setTimeout as delay } from 'node:timers/promises';
import { activity, orchestration } from 'perdure';

const greet = activity('greet', (_ctx, name: string) => `Hello, ${name}!`);

/** Start, one activity, finish. */
export const hello = orchestration('hello', (ctx, name: string) => ctx.call(greet, name));

const tenMs = activity('tenMs', async (_ctx, n: number) => {
  await delay(10);
  return n;
});

/** Five parallel activities of 10 ms. */
export const fanOut = orchestration('fanOut', async (ctx) => {
  const results = await ctx.all([0, 1, 2, 3, 4].map((n) => ctx.call(tenMs, n)));
  return results.reduce((sum, n) => sum + n, 0);
});

const copy = activity('copy', (_ctx, value: unknown) => value);

/** One activity that returns its input. */
export const echo = orchestration('echo', (ctx, value: unknown) => ctx.call(copy, value));

const increment = activity('increment', (_ctx, n: number) => n + 1);

/** Sequential activities. */
export const steps = orchestration('steps', async (ctx, count: number) => {
  let value = 0;
  for (let step = 0; step < count; step++) value = await ctx.call(increment, value);
  return value;
});

/** Sequential steps of `ctx.run()`. */
export const inlineSteps = orchestration('inlineSteps', async (ctx, count: number) => {
  let value = 0;
  for (let step = 0; step < count; step++)
    value = await ctx.run('increment', () => Promise.resolve(value + 1));
  return value;
});

/** One timer. */
export const sleeper = orchestration('sleeper', (ctx, ms: number) => ctx.sleep(ms));

/** One activity, then a wait that never ends. */
export const waiter = orchestration('waiter', async (ctx, name: string) => {
  await ctx.call(greet, name);
  await ctx.waitFor('never');
});

const leaf = orchestration('leaf', (_ctx, n: number) => Promise.resolve(n));

/** Parallel children. */
export const family = orchestration('family', async (ctx, children: number) => {
  const numbers = Array.from({ length: children }, (_, n) => n);
  const results = await ctx.all(numbers.map((n) => ctx.child(leaf, n)));
  return results.length;
});

/** The definitions of a benchmark worker. */
export const definitions = {
  orchestrations: [hello, echo, fanOut, steps, inlineSteps, sleeper, waiter, family, leaf],
  activities: [greet, copy, tenMs, increment],
};
