/** Flows that fail, with an `onFail` handler; that are canceled; and that complete early. */
import { Perdure } from 'perdure';
import { flow } from 'perdure/flows';

const trip = flow('trip')
  .input<string>()
  .completesEarly<string>()
  .step('flight', (ctx, { input }) => {
    if (input === 'home') ctx.completeEarly('no trip needed', 'nothing to book');
    return `flight to ${input}`;
  })
  .step('hotel', { after: ['flight'] }, async (ctx, { input }) => {
    if (input === 'the desert') throw new Error('no hotel there');
    if (input === 'the sea') await ctx.canceled(); // a hotel that never responds
    ctx.throwIfCanceled();
    return `hotel in ${input}`;
  })
  .step('pack', { needs: ['flight', 'hotel'] }, (_ctx, { flight, hotel }) => `${flight}, ${hotel}`)
  .onFail(
    (_ctx, { step, failure, outputs }) => {
      console.log(`${step} failed: ${failure.message}; to release: ${outputs.flight}`);
    },
    { retry: { maxAttempts: 10 } },
  )
  .output();

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
await perdure.startWorker({ flows: [trip] });
const { client } = perdure;
const printMessage = (error: Error): void => console.log(error.message);

console.log(await (await client.runFlow(trip, 'Rome')).result());
console.log(await (await client.runFlow(trip, 'home')).result());

const desert = await client.runFlow(trip, 'the desert', { id: 'desert' });
await desert.result().catch(printMessage);

const sea = await client.runFlow(trip, 'the sea');
await sea.cancel({ reason: 'rain is forecast', wait: true });
await sea.result().catch(printMessage);
await perdure.close();

// Output:
// flight to Rome, hotel in Rome
// no trip needed
// hotel failed: no hotel there; to release: flight to the desert
// Instance "desert" of "trip" failed: Step 'hotel' of flow 'trip' failed: no hotel there
// Canceled (cancel): rain is forecast
