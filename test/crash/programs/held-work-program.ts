/**
 * A worker whose activity ends only when it is canceled. It reports when the activity runs, and exits with its parent.
 * Arguments: the store and the number of slots.
 */
import { activity, orchestration, Perdure } from '../../../src/index.ts';

const [, , store = '', slots = '100'] = process.argv;
const holds = activity('holds', async (ctx, label: string) => {
  process.send?.({ running: label, pid: process.pid, attempt: ctx.attempt });
  await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
});
const perdure = await Perdure.open(store);
await perdure.startWorker({
  orchestrations: [orchestration('waits', (ctx, label: string) => ctx.call(holds, label))],
  activities: [holds],
  activityConcurrency: Number(slots),
});
process.once('disconnect', () => process.exit(0));
