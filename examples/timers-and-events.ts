/** Wait for an approval, send a reminder, then give up: durable timers and events. */
import { activity, event, isPerdureError, orchestration, Perdure } from 'perdure';

const patience = '1s'; // or '3d'

/** The name of the event and the type of its payload. */
const approval = event<{ readonly by: string }>('approval');

const remind = activity('remind', async (_ctx, item: string) => {
  console.log(`reminder: please approve the ${item}`);
});

const purchase = orchestration('purchase', async (ctx, item: string) => {
  const first = await ctx.select({ approved: ctx.waitFor(approval), late: ctx.sleep(patience) });
  if (first.key === 'approved') return `${item}: approved by ${first.value.by}`;

  await ctx.call(remind, item);
  try {
    const { by } = await ctx.waitFor(approval, { timeout: patience });
    return `${item}: approved by ${by}, after a reminder`;
  } catch (error) {
    if (!isPerdureError(error, 'TIMEOUT')) throw error; // a cancel, for example
    return `${item}: not approved`;
  }
});

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
await perdure.startWorker({ orchestrations: [purchase], activities: [remind] });
const { client } = perdure;

const chair = await client.start(purchase, 'chair');
await chair.raiseEvent(approval, { by: 'Ada' });
console.log(await chair.result());

const desk = await client.start(purchase, 'desk');
console.log(await desk.result());
await perdure.close();

// Output:
// chair: approved by Ada
// reminder: please approve the desk
// desk: not approved
