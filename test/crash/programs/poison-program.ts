/** A worker with an activity that exits the process, and one that does not. */
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
    orchestration('stays-calm', async (ctx, n: number) => ctx.call(calm, n)),
  ],
  activities: [explode, calm],
  maxClaims: 3,
  activityLease: 200,
  orchestrationLease: 200,
});
