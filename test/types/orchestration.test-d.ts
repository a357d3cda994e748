/** What the compiler accepts and rejects in definitions and orchestrations. `tsc` is the test; nothing here runs. */
import {
  activity,
  event,
  orchestration,
  type ActivityDefinition,
  type Client,
  type DurablePromise,
  type EventToken,
  type StartedHandle,
  type OrchestrationContext,
  type OrchestrationDefinition,
  type Perdure,
  type StandardSchema,
} from 'perdure';
import { exactly } from './exactly.ts';

declare const client: Client;
declare const perdure: Perdure;

// Definitions infer their types from their functions.
const charge = activity(
  'charge',
  async (_ctx, order: { sku: string; qty?: number }) => order.sku.length,
);
const ping = activity('ping', () => 'pong');
const approved = event<{ by: string }>('approved');
const stop = event('stop');
exactly<ActivityDefinition<{ sku: string; qty?: number }, number>>()(charge);
exactly<EventToken<{ by: string }>>()(approved);
exactly<EventToken<undefined>>()(stop);

const checkout = orchestration('checkout', async (ctx, skus: readonly string[]) => {
  const total = await ctx.call(charge, { sku: 'a' });
  exactly<number>()(total);
  await ctx.call(charge, { sku: 'a', qty: 2 }, { retry: { maxAttempts: 5 }, timeout: '1h' });
  exactly<string>()(await ctx.call(ping));
  exactly<{ by: string }>()(await ctx.waitFor(approved, { timeout: '1d' }));
  exactly<undefined>()(await ctx.waitFor(stop));
  exactly<unknown>()(await ctx.waitFor('stop'));
  exactly<unknown>()(await ctx.call('charge', 1));
  return { total, skus: skus.length };
});
const nightly = orchestration('nightly', async (ctx) => {
  exactly<OrchestrationContext<void>>()(ctx);
  await ctx.continueAsNew();
});
exactly<OrchestrationDefinition<readonly string[], { total: number; skus: number }>>()(checkout);

// A worker accepts definitions of different types together.
void perdure.startWorker({ orchestrations: [checkout, nightly], activities: [charge, ping] });
// @ts-expect-error an activity is no orchestration
void perdure.startWorker({ orchestrations: [charge] });
// @ts-expect-error an orchestration is no activity
void perdure.startWorker({ activities: [checkout] });
// @ts-expect-error a function is no definition
void perdure.startWorker({ activities: [async () => 1] });

// The client is as strict with definitions as with references.
exactly<Promise<StartedHandle<{ total: number; skus: number }>>>()(client.start(checkout, ['a']));
void client.start(nightly);
void client.raiseEvent('c-1', stop);
// @ts-expect-error the input is missing
void client.start(checkout);
// @ts-expect-error the input is of the wrong type
void client.start(checkout, [1]);
// @ts-expect-error it takes no input
void client.start(nightly, 1);
// @ts-expect-error an activity cannot be started
void client.start(charge, { sku: 'a' });
// @ts-expect-error the payload is of the wrong type
void client.raiseEvent('c-1', approved, { by: 5 });
// @ts-expect-error the payload is missing
void client.raiseEvent('c-1', approved);

export const inside = orchestration('inside', async (ctx, input: { depth: number }) => {
  // @ts-expect-error the input is missing
  void ctx.call(charge);
  // @ts-expect-error the input is not undefined
  void ctx.call(charge, undefined);
  // @ts-expect-error a property is missing
  void ctx.call(charge, {});
  // @ts-expect-error a property is misspelt
  void ctx.call(charge, { sku: 'a', quantity: 1 });
  // @ts-expect-error the input is of the wrong type
  void ctx.call(charge, 'a');
  // @ts-expect-error it takes no input
  void ctx.call(ping, 5);
  // @ts-expect-error an orchestration is not called, it is started as a child
  void ctx.call(checkout, ['a']);
  // @ts-expect-error an option is misspelt
  void ctx.call(charge, { sku: 'a' }, { retries: 5 });
  // @ts-expect-error a definition is not just any object
  void ctx.call({ name: 'charge' }, { sku: 'a' });
  // @ts-expect-error what is not defined cannot be called
  void ctx.call(undefined);

  exactly<DurablePromise<{ total: number; skus: number }>>()(ctx.child(checkout, ['a']));
  exactly<DurablePromise<unknown>>()(ctx.child('checkout', 5, { id: 'c', version: '2' }));
  // @ts-expect-error the input is missing
  void ctx.child(checkout);
  // @ts-expect-error the input is of the wrong type
  void ctx.child(checkout, 'a');
  // @ts-expect-error an activity is no child
  void ctx.child(charge, { sku: 'a' });

  exactly<Promise<string>>()(ctx.startDetached(checkout, ['a'], { id: 'd' }));
  // @ts-expect-error a detached instance needs an id
  void ctx.startDetached(checkout, ['a'], {});
  // @ts-expect-error the input is of the wrong type
  void ctx.startDetached(checkout, {}, { id: 'd' });
  // @ts-expect-error a property is missing
  void ctx.startDetached(inside, {}, { id: 'd' });

  // @ts-expect-error an activity is no event
  void ctx.waitFor(charge);
  // @ts-expect-error a duration is a number or text
  void ctx.sleep(new Date());

  exactly<[number, string]>()(await ctx.all([ctx.call(charge, { sku: 'a' }), ctx.call(ping)]));
  exactly<number | string>()(await ctx.race([ctx.call(charge, { sku: 'a' }), ctx.call(ping)]));
  const first = await ctx.select({ total: ctx.call(charge, { sku: 'a' }), pong: ctx.call(ping) });
  if (first.key === 'total') exactly<number>()(first.value);
  else exactly<string>()(first.value);

  exactly<number | string>()(
    await ctx.any([ctx.call(charge, { sku: 'a' }), ctx.call(ping)], { keepLosers: true }),
  );
  void ctx.select([ctx.call(ping)], { keepLosers: true });
  // @ts-expect-error an option is misspelt
  void ctx.race([ctx.call(ping)], { keepLoosers: true });

  exactly<DurablePromise<number>>()(ctx.scope(() => 5));
  exactly<DurablePromise<string>>()(ctx.scope(() => ctx.call(ping), { timeout: '1m', name: 'x' }));
  exactly<DurablePromise<[number, string]>>()(
    ctx.shield(() => ctx.all([ctx.call(charge, { sku: 'a' }), ctx.call(ping)]), { timeout: 5 }),
  );
  ctx.scope(async () => ctx.call(ping)).cancel('why');
  // @ts-expect-error a scope runs a function
  void ctx.scope(ctx.call(ping));
  // @ts-expect-error a shield has no name
  void ctx.shield(() => 1, { name: 'x' });
  // @ts-expect-error a reason is text
  ctx.call(ping).cancel(5);

  void ctx.call(ping, undefined, { cancellation: 'wait' });
  void ctx.child(checkout, ['a'], { cancellation: 'abandon' });
  // @ts-expect-error there is no such way to be canceled
  void ctx.call(ping, undefined, { cancellation: 'kill' });
  // @ts-expect-error a detached instance is not canceled with this one
  void ctx.startDetached(checkout, ['a'], { id: 'd', cancellation: 'wait' });

  if (input.depth < 3) await ctx.continueAsNew({ depth: input.depth + 1 });
  // @ts-expect-error the next input has the type of this one
  await ctx.continueAsNew({ deep: 1 });
  // Another version may have another input type.
  await ctx.continueAsNew('anything', { version: '2' });
});

// With a schema, the types are those of the schema.
declare const address: StandardSchema<{ street: string }>;
const move = orchestration('move', async (_ctx, to: { street: string }) => to.street, {
  input: address,
});
void client.start(move, { street: 'Elm' });
// @ts-expect-error the input does not fit the schema
void client.start(move, { road: 'Elm' });
// @ts-expect-error the function does not fit the schema
orchestration('move', async (_ctx, to: { road: string }) => to.road, { input: address });
const moved = event('moved', { schema: address });
exactly<EventToken<{ street: string }>>()(moved);

// @ts-expect-error a handler is a function
activity('broken', 'not a function');
// @ts-expect-error a name is text
activity(5, () => 1);
// @ts-expect-error an option is misspelt
activity('broken', () => 1, { retries: 3 });
