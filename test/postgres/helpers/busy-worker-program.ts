/** A worker that starts instances in a loop and waits for them. Its argument is the database URL. Exits with its parent. */
import { activity, orchestration } from '../../../src/index.ts';
import { ProviderError } from '../../../src/model/failures/errors.ts';
import { Perdure } from '../../../src/perdure.ts';

const step = activity('step', async (_ctx, n: number) => n + 1);
const steps = orchestration('steps', async (ctx, count: number) => {
  let n = 0;
  while (n < count) n = await ctx.call(step, n);
  return n;
});

const [, , url = ''] = process.argv;
const perdure = await Perdure.open(url);
await perdure.startWorker({
  orchestrations: [steps],
  activities: [step],
  orchestrationLease: 1_000,
  activityLease: 1_000,
});
const stopping = new AbortController();
let completed = 0;
process.once('disconnect', () => process.exit(1));
process.once('message', () => stopping.abort());

async function keepStarting(): Promise<void> {
  while (!stopping.signal.aborted) {
    try {
      const handle = await perdure.client.start(steps, 3);
      await handle.result({ timeout: '20s' });
      completed += 1;
    } catch (error) {
      if (!(error instanceof ProviderError) || !error.retryable) throw error;
    }
  }
}

process.send?.('ready');
await Promise.all(Array.from({ length: 20 }, keepStarting));
await perdure.close();
process.send?.(completed, () => process.disconnect());
