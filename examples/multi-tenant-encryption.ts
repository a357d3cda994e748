/** Encrypts the payloads of each tenant with its own key, and gives handlers the tenant of their run. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { createHash } from 'node:crypto';
import { activity, orchestration, Perdure } from 'perdure';
import { aesGcm } from 'perdure/codecs';

// In production, read the keys from a key service.
const keyOf = (name: string): Uint8Array => createHash('sha256').update(name).digest();
const keys = new Map(['acme', 'globex', 'shared'].map((tenant) => [tenant, keyOf(tenant)]));

// The ids of a tenant's instances start with its name. So do the ids of their children.
const tenantOf = (instanceId: string): string => instanceId.split('/', 1)[0] ?? 'shared';
const tenant = new AsyncLocalStorage<string>();

const charge = activity('charge', async (_ctx, order: { item: string; euros: number }) => {
  return `${tenant.getStore()} pays ${order.euros} euros for ${order.item}`;
});

const buy = orchestration('buy', async (ctx, order: { item: string; euros: number }) => {
  return ctx.call(charge, order);
});

const perdure = await Perdure.open(process.argv[2] ?? ':memory:', {
  codec: aesGcm({
    current: ({ instanceId }) => (instanceId === undefined ? 'shared' : tenantOf(instanceId)),
    keys: (keyId) => keys.get(keyId),
    hashKey: keyOf('hashes'),
    // A deleted key is noticed immediately.
    cacheMs: 0,
  }),
});
perdure.use({ activity: (call, next) => tenant.run(tenantOf(call.instanceId), next) });
await perdure.startWorker({ orchestrations: [buy], activities: [charge] });

const { client } = perdure;
const order = { item: 'a desk', euros: 200 };
for (const id of ['acme/order-1', 'globex/order-1']) {
  const handle = await client.start(buy, order, { id });
  console.log(await handle.result());
}

// Without its key, the payloads of a tenant are unreadable, also in backups.
keys.delete('acme');
for (const id of ['acme/order-1', 'globex/order-1']) {
  const { status, output = 'unreadable' } = await client.wait(id);
  console.log(`${id}: ${status}, ${JSON.stringify(output)}`);
}
await perdure.close();

// Output:
// acme pays 200 euros for a desk
// globex pays 200 euros for a desk
// acme/order-1: completed, "unreadable"
// globex/order-1: completed, "globex pays 200 euros for a desk"
