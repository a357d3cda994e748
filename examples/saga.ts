/** A saga: each booking has a compensation, which runs if a later step fails or the trip is canceled. */
import { setTimeout as delay } from 'node:timers/promises';
import { activity, event, orchestration, Perdure } from 'perdure';

const payment = event<{ readonly euros: number }>('payment');

const book = activity('book', async (_ctx, what: string) => {
  if (what === 'camel') throw new Error('no camels left');
  console.log(`booked the ${what}`);
  return what;
});

const release = activity('release', async (_ctx, what: string) => {
  console.log(`released the ${what}`);
});

const trip = orchestration('trip', async (ctx, wishes: readonly string[]) => {
  const booked: string[] = [];
  try {
    for (const wish of wishes) {
      // 'wait': after a cancel, a running booking still returns its result, so no booking stays without a compensation.
      booked.push(await ctx.call(book, wish, { cancellation: 'wait' }));
    }
    ctx.setCustomStatus('waiting for the payment');
    const { euros } = await ctx.waitFor(payment, { timeout: '1h' });
    return `${booked.join(' and ')} for ${euros} €`;
  } catch (error) {
    // A cancel does not reach into a shield. The timeout and the clean-up limit of the cancel bound it.
    await ctx.shield(
      async () => {
        for (const what of booked.toReversed()) {
          await ctx.call(release, what, { retry: { maxAttempts: 100 } });
        }
      },
      { timeout: '4m' },
    );
    throw error;
  }
});

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
await perdure.startWorker({ orchestrations: [trip], activities: [book, release] });
const { client } = perdure;

const desert = await client.start(trip, ['flight', 'tent', 'camel'], { id: 'desert' });
await desert.result().catch((error: Error) => console.log(error.message));

const beach = await client.start(trip, ['train', 'hotel'], { id: 'beach' });
while ((await beach.status()).customStatus === undefined) await delay(10);
await beach.cancel({ reason: 'rain is forecast', wait: true });
await beach.result().catch((error: Error) => console.log(error.message));
await perdure.close();

// Output:
// booked the flight
// booked the tent
// released the tent
// released the flight
// Instance "desert" of "trip" failed: Activity 'book' failed: no camels left
// booked the train
// booked the hotel
// released the hotel
// released the train
// Canceled (cancel): rain is forecast
