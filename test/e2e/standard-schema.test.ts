import { type } from 'arktype';
import { activity, event, orchestration, Perdure, type StandardSchema } from 'perdure';
import { testOptions } from 'perdure/testing';
import * as v from 'valibot';
import { describe, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';

interface Order {
  readonly sku: string;
  readonly qty: number;
}

const schemas: readonly [string, StandardSchema<Order>, StandardSchema<string>][] = [
  ['zod', z.object({ sku: z.string(), qty: z.number().min(1) }), z.email()],
  [
    'valibot',
    v.object({ sku: v.string(), qty: v.pipe(v.number(), v.minValue(1)) }),
    v.pipe(v.string(), v.email()),
  ],
  ['arktype', type({ sku: 'string', qty: 'number>=1' }), type('string.email')],
];

async function open(...definitions: Parameters<Perdure['startWorker']>): Promise<Perdure> {
  const perdure = await Perdure.open(':memory:');
  onTestFinished(() => perdure.close());
  await perdure.startWorker(...definitions);
  return perdure;
}

describe.each(schemas)('schemas of %s', (_, orderSchema, emailSchema) => {
  const reserve = activity('reserve', (_ctx, order: Order) => `${order.qty} × ${order.sku}`, {
    input: orderSchema,
  });
  const confirmed = event('confirmed', { schema: emailSchema });
  const checkout = orchestration(
    'checkout',
    async (ctx, order: Order) => {
      const reserved = await ctx.call(reserve, order);
      return `${reserved} for ${await ctx.waitFor(confirmed)}`;
    },
    { input: orderSchema },
  );
  const careless = orchestration('careless', (ctx, input: unknown) => ctx.call('reserve', input));
  const parent = orchestration('parent', (ctx, input: unknown) => ctx.child('checkout', input));
  const definitions = { orchestrations: [checkout, careless, parent], activities: [reserve] };

  test('a valid input and a valid event pass the schema', async () => {
    const { client } = await open(definitions);
    const handle = await client.start(checkout, { sku: 'a', qty: 2 });
    await handle.raiseEvent(confirmed, 'someone@example.org');
    expect(await handle.result()).toBe('2 × a for someone@example.org');
  });

  test('start() rejects an invalid input with INVALID_INPUT and the path', async () => {
    const { client } = await open(definitions);
    for (const input of [
      { sku: 'a', qty: 0 },
      { sku: 'a', qty: '2' },
    ]) {
      await expect(client.start(checkout, input as Order, { id: 'c' })).rejects.toMatchObject({
        code: 'INVALID_INPUT',
        message: expect.stringMatching(/Orchestration "checkout" .* qty: /) as string,
      });
    }
    expect(await client.get('c')).toBeUndefined();
  });

  test('raiseEvent() rejects an invalid payload with INVALID_INPUT', async () => {
    const { client } = await open(definitions);
    const handle = await client.start(checkout, { sku: 'a', qty: 2 });
    await expect(handle.raiseEvent(confirmed, 'nobody')).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining('Event "confirmed"') as string,
    });
  });

  test('an activity called with an invalid input fails with INVALID_INPUT', async () => {
    const { client } = await open(definitions);
    const handle = await client.start(careless, { sku: 'a' });
    await expect(handle.result()).rejects.toMatchObject({
      code: 'INSTANCE_FAILED',
      failure: { code: 'ACTIVITY_FAILED', cause: { code: 'INVALID_INPUT' } },
    });
  });

  test('an instance started by name or as a child fails on invalid input', async () => {
    const { client } = await open(definitions);
    const byName = await client.start('checkout', { sku: 'a' });
    await expect(byName.result()).rejects.toMatchObject({
      code: 'INSTANCE_FAILED',
      failure: { code: 'INVALID_INPUT', message: expect.stringContaining('qty') as string },
    });
    const asChild = await client.start(parent, { sku: 'a' });
    await expect(asChild.result()).rejects.toMatchObject({
      failure: { code: 'CHILD_FAILED', cause: { code: 'INVALID_INPUT' } },
    });
  });
});

describe('transforming and async schemas', () => {
  const withDefault = z.object({ qty: z.number().default(1) });

  test('a transforming schema is applied once to the handler input, even with replays', async () => {
    const add = activity('add', (_ctx, text: string) => `${text}!`, {
      input: z.string().transform((text) => `${text}?`),
    });
    const shout = orchestration('shout', (ctx, { qty }) => ctx.call(add, `${qty}`), {
      input: withDefault,
    });
    const { client } = await open({
      orchestrations: [shout],
      activities: [add],
      ...testOptions({ alwaysReplay: true }),
    });
    expect(await (await client.start('shout', {})).result()).toBe('1?!');
    expect(await (await client.start(shout, { qty: 3 })).result()).toBe('3?!');
  });
});

test('start() awaits an async schema', async () => {
  const input = z.string().refine(async (text) => text !== 'taken', 'is taken');
  const claim = orchestration('claim', (_ctx, name: string) => `${name} claimed`, { input });
  const { client } = await open({ orchestrations: [claim] });
  await expect(client.start(claim, 'taken')).rejects.toThrow('is taken');
  expect(await (await client.start(claim, 'free')).result()).toBe('free claimed');
});
