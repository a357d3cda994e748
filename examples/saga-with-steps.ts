/** A saga of steps: each step and its compensation are closures. The compensations run if a later step fails. */
import { orchestration, Perdure, type OrchestrationContext } from 'perdure';

// Stands in for the table of a shop: who holds each item. Both changes are idempotent, because a step can run again.
const holders = new Map<string, string | undefined>([
  ['tent', undefined],
  ['lamp', undefined],
]);

async function reserve(ctx: OrchestrationContext, item: string): Promise<void> {
  const rentalId = ctx.instanceId;
  await ctx.run(`reserve ${item}`, async (step) => {
    const isFree = holders.has(item) && [undefined, rentalId].includes(holders.get(item));
    if (!isFree) throw new Error(`no ${item} left`);
    holders.set(item, rentalId);
    console.log(`reserved the ${item}, attempt ${step.attempt}`);
  });
}

async function putBack(ctx: OrchestrationContext, item: string): Promise<void> {
  const rentalId = ctx.instanceId;
  await ctx.run(
    `put back ${item}`,
    async () => {
      if (holders.get(item) !== rentalId) return;
      holders.set(item, undefined);
      console.log(`put back the ${item}`);
    },
    { retry: { maxAttempts: 100 } },
  );
}

const rental = orchestration('rental', async (ctx, items: readonly string[]) => {
  const toPutBack: string[] = [];
  try {
    for (const item of items) {
      // Before the step: a cancel can reject it after its closure has reserved the item.
      toPutBack.push(item);
      await reserve(ctx, item);
    }
    return items.join(' and ');
  } catch (error) {
    // A cancel does not reach into a shield. The timeout and the clean-up limit of the cancel bound it.
    await ctx.shield(
      async () => {
        for (const item of toPutBack.toReversed()) await putBack(ctx, item);
      },
      { timeout: '4m' },
    );
    throw error;
  }
});

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
await perdure.startWorker({ orchestrations: [rental] });
const { client } = perdure;

const failed = await client.start(rental, ['tent', 'lamp', 'boat'], { id: 'with a boat' });
await failed.result().catch((error: Error) => console.log(error.message));
const rented = await client.start(rental, ['tent', 'lamp'], { id: 'without a boat' });
console.log(await rented.result());
await perdure.close();

// Output:
// reserved the tent, attempt 1
// reserved the lamp, attempt 1
// put back the lamp
// put back the tent
// Instance "with a boat" of "rental" failed: Step 'reserve boat' failed: no boat left
// reserved the tent, attempt 1
// reserved the lamp, attempt 1
// tent and lamp
