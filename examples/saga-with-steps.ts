/** A saga of steps: each step and its compensation are closures. The compensations run if a later step fails. */
import { orchestration, Perdure, type OrchestrationContext } from 'perdure';

const stock = new Map([
  ['tent', 1],
  ['lamp', 1],
]);

async function reserve(ctx: OrchestrationContext, item: string): Promise<string> {
  return ctx.run(`reserve ${item}`, async (step) => {
    const left = stock.get(item) ?? 0;
    if (left === 0) throw new Error(`no ${item} left`);
    stock.set(item, left - 1);
    console.log(`reserved the ${item}, attempt ${step.attempt}`);
    return item;
  });
}

async function putBack(ctx: OrchestrationContext, item: string): Promise<void> {
  await ctx.run(
    `put back ${item}`,
    async () => {
      stock.set(item, (stock.get(item) ?? 0) + 1);
      console.log(`put back the ${item}`);
    },
    { retry: { maxAttempts: 100 } },
  );
}

const rental = orchestration('rental', async (ctx, items: readonly string[]) => {
  const reserved: string[] = [];
  try {
    for (const item of items) reserved.push(await reserve(ctx, item));
    return reserved.join(' and ');
  } catch (error) {
    // A cancel does not reach into a shield. The timeout and the clean-up limit of the cancel bound it.
    await ctx.shield(
      async () => {
        for (const item of reserved.toReversed()) await putBack(ctx, item);
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
