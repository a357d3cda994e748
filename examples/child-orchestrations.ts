/** An orchestration waits for its children, and starts a detached instance that it does not wait for. */
import { activity, orchestration, Perdure } from 'perdure';

interface Parcel {
  readonly from: string;
  readonly item: string;
}

const pack = activity('pack', async (_ctx, parcel: Parcel) => {
  if (parcel.item === 'piano') throw new Error('the piano does not fit into a box');
  return `${parcel.item} from ${parcel.from}`;
});

const ship = orchestration('ship', async (ctx, parcel: Parcel) => {
  return await ctx.call(pack, parcel);
});

const survey = orchestration('survey', async (_ctx, orderId: string) => `survey for ${orderId}`);

const order = orchestration('order', async (ctx, items: readonly string[]) => {
  const parcels = await Promise.allSettled(
    items.map((item) => ctx.child(ship, { from: 'Lisbon', item })),
  );
  // `allSettled` swallows the `CanceledError` of a cancel: rethrow it.
  ctx.throwIfCanceled();
  await ctx.startDetached(survey, ctx.instanceId, { id: `${ctx.instanceId}-survey` });
  return parcels.map((parcel) =>
    parcel.status === 'fulfilled' ? `shipped ${parcel.value}` : String(parcel.reason.message),
  );
});

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
await perdure.startWorker({ orchestrations: [order, ship, survey], activities: [pack] });
const { client } = perdure;

const handle = await client.start(order, ['lamp', 'piano'], { id: 'order-7' });
for (const line of await handle.result()) console.log(line);
console.log(await client.handle('order-7-survey').result());

const children = await client.list({ parentId: 'order-7' });
console.log(`${children.items.length} children`);
await perdure.close();

// Output:
// shipped lamp from Lisbon
// Child orchestration 'ship' failed: Activity 'pack' failed: the piano does not fit into a box
// survey for order-7
// 2 children
