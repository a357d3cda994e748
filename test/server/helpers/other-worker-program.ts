/** Runs a worker on the store given as argument, with an optional heartbeat, until its parent disconnects. */
import { activity, event, orchestration, Perdure, silentLogger } from '../../../src/index.ts';

const [, , store, heartbeat] = process.argv;
if (store === undefined) throw new Error('Give the path or URL of the store.');

const next = event<number>('next');
const greet = activity('greet', async (_ctx, name: string) => `Hello, ${name}!`);
const hello = orchestration('hello', (ctx, name: string) => ctx.call(greet, name));
const progress = orchestration('progress', async (ctx, steps: number) => {
  ctx.setCustomStatus({ step: 0 });
  for (let step = 1; step <= steps; step += 1) {
    await ctx.waitFor(next);
    ctx.setCustomStatus({ step });
  }
  await ctx.waitFor(next);
});

const perdure = await Perdure.open(store, { logger: silentLogger });
await perdure.startWorker({
  orchestrations: [hello, progress],
  activities: [greet],
  ...(heartbeat !== undefined && { heartbeat }),
});
process.once('disconnect', () => void perdure.close());
process.send?.('ready');
