/** Change an orchestration while instances are running: they stay on their version, and new ones use the newest. */
import { activity, orchestration, Perdure } from 'perdure';

const charge = activity('charge', async (_ctx, euros: number) => `charged ${euros}`);
const mail = activity('mail', async (_ctx, text: string) => `mailed "${text}"`);

const checkout1 = orchestration(
  'checkout',
  async (ctx, euros: number) => {
    await ctx.waitFor('confirmed');
    return [await ctx.call(charge, euros)];
  },
  { version: '1' },
);

// Version 2 begins with an operation that the histories of running instances do not have.
const checkout2 = orchestration(
  'checkout',
  async (ctx, euros: number) => {
    const asked = await ctx.call(mail, 'please confirm');
    await ctx.waitFor('confirmed');
    return [asked, await ctx.call(charge, euros)];
  },
  { version: '2' },
);

const activities = [charge, mail];
const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
const { client } = perdure;

const before = await perdure.startWorker({ orchestrations: [checkout1], activities });
const old = await client.start('checkout', 10, { id: 'old' });
await before.stop();

// The deploy registers both versions, until no instance of the old one is left.
await perdure.startWorker({ orchestrations: [checkout1, checkout2], activities });
const young = await client.start('checkout', 20, { id: 'young' });

for (const handle of [old, young]) {
  await handle.raiseEvent('confirmed', true);
  const result = await handle.result();
  const { version } = await handle.status();
  console.log(`${handle.id} ran version ${version}: ${(result as string[]).join(', ')}`);
}
await perdure.close();

// Output:
// old ran version 1: charged 10
// young ran version 2: mailed "please confirm", charged 20
