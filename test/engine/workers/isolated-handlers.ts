import { appendFileSync } from 'node:fs';
import type { ActivityContext } from '../../../src/orchestration/activity-context.ts';

/** Handlers of isolated activities. Each runs in its own thread. */
export async function add(ctx: ActivityContext, input: { a: number; b: number }): Promise<unknown> {
  ctx.heartbeat({ at: 'start' });
  return { sum: input.a + input.b, attempt: ctx.attempt, instanceId: ctx.instanceId };
}

export function spin(): never {
  for (;;);
}

export async function listen(ctx: ActivityContext): Promise<void> {
  await ctx.canceled();
  ctx.throwIfCanceled();
}

export async function fail(): Promise<never> {
  throw Object.assign(new RangeError('too far'), { code: 'FAR' });
}

/** An error whose class sets no name. */
export class Declined extends Error {}

export async function decline(ctx: ActivityContext): Promise<never> {
  throw new Declined(`attempt ${ctx.attempt}`);
}

export function exit(): never {
  process.exit(3);
}

export async function pays(ctx: ActivityContext): Promise<string> {
  await ctx.pointOfNoReturn();
  return 'paid';
}

export async function pay(ctx: ActivityContext): Promise<void> {
  await ctx.canceled();
  await ctx.pointOfNoReturn();
}

/** Blocks its thread in the first attempt. */
export async function spinOnce(ctx: ActivityContext): Promise<number> {
  if (ctx.attempt === 1) spin();
  return ctx.attempt;
}

export async function quick(ctx: ActivityContext): Promise<number> {
  return ctx.attempt;
}

/** Fails with its cancel trigger as the message. */
export async function failWithTrigger(ctx: ActivityContext): Promise<never> {
  const { trigger } = await ctx.canceled();
  throw new Error(`stopped by ${trigger}`);
}

export async function emitCount(ctx: ActivityContext, to: number): Promise<readonly boolean[]> {
  const isRead: boolean[] = [];
  for (let n = 1; n <= to; n += 1) isRead.push(await ctx.emit({ n }));
  return isRead;
}

export async function emitEndlessly(ctx: ActivityContext): Promise<void> {
  for (;;) await ctx.emit('more');
}

/** Appends a line to a file for each start. */
export function note(_ctx: ActivityContext, { path, n }: { path: string; n: number }): void {
  appendFileSync(path, `${n}\n`);
}
