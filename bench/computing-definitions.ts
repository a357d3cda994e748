import { activity, orchestration } from 'perdure';

/** How many handlers a run claims at once, and how long each computes before it waits for anything. */
export interface Computing {
  readonly count: number;
  readonly computeMs: number;
}

/** A run of many activities that each compute without waiting, and who hears of their starts. */
export function createComputing(started: (instanceId: string) => void) {
  const compute = activity('compute', (ctx, ms: number) => {
    started(ctx.instanceId);
    for (const endsAt = performance.now() + ms; performance.now() < endsAt;);
  });
  const computing = orchestration('computing', async (ctx, { count, computeMs }: Computing) => {
    await ctx.all(Array.from({ length: count }, () => ctx.call(compute, computeMs)));
  });
  return { computing, definitions: { orchestrations: [computing], activities: [compute] } };
}
