/** An order that survives restarts, and releases its reservation when it is canceled. */
import { setTimeout as delay } from 'node:timers/promises';
import { activity, orchestration, Perdure } from 'perdure';

const reserve = activity('reserve', async (_ctx, item: string) => {
  console.log(`reserved ${item}`);
});

const release = activity('release', async (_ctx, item: string) => {
  console.log(`released ${item}`);
});

const order = orchestration('order', async (ctx, item: string) => {
  await ctx.call(reserve, item, { retry: { maxAttempts: 5 }, cancellation: 'wait' });
  ctx.setCustomStatus('reserved');
  try {
    await ctx.sleep('3d'); // durable: restart or redeploy at any time
    return `shipped ${item}`;
  } catch (error) {
    await ctx.shield(() => ctx.call(release, item)); // runs although the order is canceled
    throw error;
  }
});

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
await perdure.startWorker({ orchestrations: [order], activities: [reserve, release] });
const handle = await perdure.client.start(order, 'book', { id: 'order-17' });

while ((await handle.status()).customStatus === undefined) await delay(10);
// Any process that opens the same store can cancel the order by its id.
const { status } = await perdure.client.cancel('order-17', { reason: 'returned', wait: true });
console.log(status);
await perdure.close();

// Output:
// reserved book
// released book
// canceled
