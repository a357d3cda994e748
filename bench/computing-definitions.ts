import { activity, orchestration } from 'perdure';

/** Handlers per run, and the synchronous work of each. */
export interface Computing {
  readonly count: number;
  readonly computeMs: number;
}

/** A run of many activities with synchronous work, which reports their starts. */
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
