/** A worker with an activity and a step that exit the process, and others that do not. */
import { activity, orchestration, Perdure } from '../../../src/index.ts';

const explode = activity('explode', () => process.exit(7));
const calm = activity('calm', async (_ctx, n: number) => n);

const [, , path = ''] = process.argv;
const perdure = await Perdure.open(path);
await perdure.startWorker({
  orchestrations: [
    orchestration('explodes', async (ctx) =>
      ctx.call(explode).catch((error: Error) => (error.cause as Error & { code: string }).code),
    ),
    orchestration('explodes-in-a-step', async (ctx) => {
      const before = await ctx.run('calm', () => 'calm');
      const code = await ctx
        .run('explode', () => process.exit(7))
        .catch((error: Error & { code: string; cause?: { code?: string } }) => [
          error.code,
          error.cause?.code,
        ]);
      return [before, code, await ctx.run('after', () => 'after')];
    }),
    orchestration('stays-calm', async (ctx, n: number) => ctx.call(calm, n)),
  ],
  activities: [explode, calm],
  maxClaims: 3,
  activityLease: 200,
  orchestrationLease: 200,
});
