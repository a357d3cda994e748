/** `perdure dev` and `perdure worker` run everything that this file exports. */
import { activity, event, isPerdureError, orchestration } from 'perdure';

export interface Order {
  readonly customer: string;
  readonly euros: number;
}

/** Raised by the payment provider, or by `POST /orders/:id/paid`. */
export const paid = event<{ readonly reference: string }>('paid');

export const reserve = activity('reserve', async (_ctx, order: Order) => {
  return `reservation of ${order.customer}`;
});

export const release = activity('release', async (_ctx, reservation: string) => {
  console.log(`released the ${reservation}`);
});

export const ship = activity(
  'ship',
  async (_ctx, reservation: string) => `shipped the ${reservation}`,
);

/** Reserves, waits up to three days for the payment, then ships. Releases the reservation if anything fails. */
export const order = orchestration('order', async (ctx, input: Order) => {
  const reservation = await ctx.call(reserve, input);
  try {
    const { reference } = await ctx.waitFor(paid, { timeout: '3d' });
    return { reference, shipment: await ctx.call(ship, reservation) };
  } catch (error) {
    // Also runs after a cancel.
    await ctx.shield(() => ctx.call(release, reservation));
    if (isPerdureError(error, 'TIMEOUT'))
      return { reference: 'none', shipment: 'not paid in time' };
    throw error;
  }
});
