/** Wait for a person, remind them, give up: timers and events that outlive the process. */
import { activity, event, isPerdureError, orchestration, Perdure } from 'perdure';

const patience = '1s'; // or '3d': a timer may be as long as you like

/** The name of the event and the type of what it carries. */
const approval = event<{ readonly by: string }>('approval');

const remind = activity('remind', async (_ctx, item: string) => {
  console.log(`reminder: somebody has to approve the ${item}`);
});

const purchase = orchestration('purchase', async (ctx, item: string) => {
  const first = await ctx.select({ approved: ctx.waitFor(approval), late: ctx.sleep(patience) });
  if (first.key === 'approved') return `${item}: approved by ${first.value.by}`;

  await ctx.call(remind, item);
  try {
    const { by } = await ctx.waitFor(approval, { timeout: patience });
    return `${item}: approved by ${by}, after a reminder`;
  } catch (error) {
    // A cancel arrives here too, and has to pass: handle the timeout alone.
    if (!isPerdureError(error, 'TIMEOUT')) throw error;
    return `${item}: nobody approved`;
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
// reminder: somebody has to approve the desk
// desk: nobody approved
