import { setTimeout as work } from 'node:timers/promises';
import { activity, orchestration, type ActivityContext, type ActivityDefinition } from 'perdure';

/** The orders of the demo, and the delay before each begins. */
export const orders = [
  { id: 'order-1', delayMs: 0 },
  { id: 'order-2', delayMs: 160 },
  { id: 'order-3', delayMs: 320 },
] as const;

/** The steps of an order, in sequence. */
export const steps = ['reserve stock', 'charge card', 'pack parcel', 'send mail'] as const;
export type Step = (typeof steps)[number];

const stepMs = 480;

/** Called when a step begins, and when it has taken effect. */
export type OnStep = (what: 'begun' | 'done', order: string, step: Step) => void;

/** The definitions of the demo: an order runs four activities in sequence. */
export function defineOrder(onStep: OnStep) {
  const define = (step: Step): ActivityDefinition<void, string> =>
    activity(step, async (ctx: ActivityContext) => {
      onStep('begun', ctx.instanceId, step);
      await work(stepMs);
      onStep('done', ctx.instanceId, step);
      return `${step}: done`;
    });
  const activities = steps.map(define);

  const order = orchestration('order', async (ctx, delayMs: number) => {
    await ctx.sleep(delayMs);
    for (const step of activities) await ctx.call(step);
    return 'on its way';
  });
  return { order, activities };
}
