/** A saga: every step has its compensation, and what was done is undone when a later step fails or somebody cancels. */
import { setTimeout as delay } from 'node:timers/promises';
import { activity, event, orchestration, Perdure } from 'perdure';

const payment = event<{ readonly euros: number }>('payment');

const book = activity('book', async (_ctx, what: string) => {
  if (what === 'camel') throw new Error('no camels left');
  console.log(`booked the ${what}`);
  return what;
});

const giveBack = activity('giveBack', async (_ctx, what: string) => {
  console.log(`gave back the ${what}`);
});

const trip = orchestration('trip', async (ctx, wishes: readonly string[]) => {
  const booked: string[] = [];
  try {
    for (const wish of wishes) {
      // 'wait': a booking that is under way when a cancel comes is heard out, so that nothing stays booked unnoticed.
      booked.push(await ctx.call(book, wish, { cancellation: 'wait' }));
    }
    ctx.setCustomStatus('waiting for the payment');
    const { euros } = await ctx.waitFor(payment, { timeout: '1h' });
    return `${booked.join(' and ')} for ${euros} €`;
  } catch (error) {
    // A cancel does not enter a shield. Its timeout bounds it, and so does the clean-up limit of the cancel.
    await ctx.shield(
      async () => {
        for (const what of booked.toReversed()) {
          await ctx.call(giveBack, what, { retry: { maxAttempts: 100 } });
        }
      },
      { timeout: '4m' },
    );
    throw error;
  }
});

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
await perdure.startWorker({ orchestrations: [trip], activities: [book, giveBack] });
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
// gave back the tent
// gave back the flight
// Instance "desert" of "trip" failed: Activity 'book' failed: no camels left
// booked the train
// booked the hotel
// gave back the hotel
// gave back the train
// Canceled (cancel): rain is forecast
