import { activity, CanceledError, event, orchestration } from '../../../src/index.ts';
import type { Stage } from './stage.ts';

/** The input of `fulfilOrder`. */
export interface Order {
  readonly order: string;
  readonly amount: number;
  readonly currency: 'EUR' | 'USD';
  /** `card_declined`, `card_expired`, `card_flaky` and `card_slow` fail. */
  readonly method: string;
  readonly voucher?: string;
}

export const paymentConfirmed = event<{ readonly reference: string }>('paymentConfirmed');
export const delivered = event<{ readonly signedBy: string }>('delivered');

/** The card issuer declined a payment. */
class CardDeclined extends Error {
  override readonly name = 'CardDeclined';
  readonly code = 'PAYMENT_DECLINED';
}

class HttpError extends Error {
  override readonly name = 'HttpError';
  readonly code = 'HTTP_503';
}

const transient = { maxAttempts: 8, backoff: 'fixed', initialDelay: '60s', jitter: 0 } as const;
const patient = { maxAttempts: 20, backoff: 'fixed', initialDelay: '90s', jitter: 0 } as const;

/** Orders, refunds and shipping. `build` selects the deployed code: `9f2c1ab` applies vouchers before it charges. */
export function orderDefinitions(stage: Stage, build: '71de0c4' | '9f2c1ab') {
  const reserveStock = activity('reserveStock', async (ctx, order: Order) => {
    await stage.work(ctx, `reserveStock ${order.order}`, 410);
    return { warehouse: 'AMS-2', reservation: `res-${order.order}` };
  });
  const scoreFraud = activity('scoreFraud', async (ctx, order: Order) => {
    await stage.work(ctx, `scoreFraud ${order.order}`, 840);
    return { score: Number(order.order) % 97, model: 'fraud-7' };
  });
  const fetchRate = activity(
    'fetchRate',
    async (ctx, { order, carrier }: { order: string; carrier: string }) => {
      await stage.work(ctx, `fetchRate ${order} ${carrier}`, carrier === 'air' ? 1_200 : 2_500);
      return { carrier, price: carrier === 'air' ? 1_890 : 640 };
    },
  );
  const applyVoucher = activity('applyVoucher', async (ctx, voucher: string) => {
    await stage.work(ctx, `applyVoucher ${voucher}`, 120);
    return { voucher, discount: 500 };
  });
  const chargeCard = activity(
    'chargeCard',
    async (ctx, { order, method, ...payment }: Order) => {
      await stage.work(ctx, `chargeCard ${order}`, 1_900);
      if (method === 'card_declined') {
        throw new CardDeclined(`Card declined for order ${order}: insufficient funds`);
      }
      if (method === 'card_expired') {
        throw new CardDeclined(`Card declined for order ${order}: the card has expired`);
      }
      if (method === 'card_flaky') throw new HttpError('503 acquirer unavailable');
      return { capture: `cap-${order}`, ...payment };
    },
    { retry: { ...transient, nonRetryable: ['CardDeclined'] } },
  );
  const printLabel = activity(
    'printLabel',
    async (ctx, order: string) => {
      await stage.work(ctx, `printLabel ${order}`, 2_300);
      return { label: `https://labels.example/${order}.pdf` };
    },
    { cancellation: 'wait' },
  );
  const bookCourier = activity('bookCourier', async (ctx, order: string) => {
    await stage.work(ctx, `bookCourier ${order}`, 950);
    return { courier: 'NordPost', tracking: `NP${order}NL` };
  });
  const releaseStock = activity('releaseStock', async (ctx, order: string) => {
    await stage.work(ctx, `releaseStock ${order}`, 17_000);
  });
  const refundCard = activity(
    'refundCard',
    async (ctx, order: string) => {
      await stage.work(ctx, `refundCard ${order}`, 600);
      if (ctx.attempt === 1) throw new HttpError('503 acquirer unavailable');
      return { refund: `ref-${order}` };
    },
    { retry: patient },
  );

  const askCarrier = orchestration(
    'askCarrier',
    (ctx, request: { readonly order: string; readonly carrier: string }) =>
      ctx.call(fetchRate, request),
  );
  const quoteShipping = orchestration('quoteShipping', async (ctx, order: string) => {
    const ask = (carrier: string) =>
      ctx.child(askCarrier, { order, carrier }, { id: `${ctx.instanceId}:${carrier}` });
    const rates = await ctx.all([ask('air'), ask('ground')]);
    return rates.toSorted((a, b) => a.price - b.price)[0];
  });
  const dispatch = orchestration('dispatch', async (ctx, order: string) => {
    const { label } = await ctx.call(printLabel, order);
    const { tracking } = await ctx.call(bookCourier, order);
    return { label, tracking };
  });

  const fulfilOrder = orchestration(
    'fulfilOrder',
    async (ctx, order: Order) => {
      ctx.setCustomStatus({ step: 'reserving' });
      await ctx.call(reserveStock, order);
      await ctx.call(scoreFraud, order);
      await ctx.child(quoteShipping, order.order, { id: `${ctx.instanceId}:quote` });
      ctx.setCustomStatus({ step: 'payment' });
      await ctx.waitFor(paymentConfirmed);
      ctx.setCustomStatus({ step: 'charging' });
      if (build === '9f2c1ab' && order.voucher !== undefined) {
        await ctx.call(applyVoucher, order.voucher);
      }
      await ctx.call(chargeCard, order);
      try {
        ctx.setCustomStatus({ step: 'dispatching' });
        const { tracking } = await ctx.child(dispatch, order.order, {
          id: `${ctx.instanceId}:dispatch`,
          cancellation: 'wait',
        });
        ctx.setCustomStatus({ step: 'delivery', tracking });
        const { key } = await ctx.select({
          delivered: ctx.waitFor(delivered),
          deadline: ctx.sleep('14d'),
        });
        return { order: order.order, tracking, delivered: key === 'delivered' };
      } catch (error) {
        if (error instanceof CanceledError) {
          await ctx.shield(
            async () => {
              await ctx.call(releaseStock, order.order);
              await ctx.call(refundCard, order.order);
            },
            { timeout: '10m' },
          );
        }
        throw error;
      }
    },
    { version: '3' },
  );
  const refundOrder = orchestration('refundOrder', async (ctx, order: Order) => {
    await ctx.waitFor('approval', { timeout: '2h' });
    return await ctx.call(refundCard, order.order);
  });

  return {
    fulfilOrder,
    refundOrder,
    orchestrations: [fulfilOrder, refundOrder, quoteShipping, askCarrier, dispatch],
    activities: [
      reserveStock,
      scoreFraud,
      fetchRate,
      ...(build === '9f2c1ab' ? [applyVoucher] : []),
      chargeCard,
      printLabel,
      bookCourier,
      releaseStock,
      refundCard,
    ],
  };
}
