/** Wait for a webhook: an awakeable, whose token is the only right that the other side needs. */
import { activity, orchestration, Perdure } from 'perdure';
import { serve } from 'perdure/server';

/** Stands for a payment provider, which calls back over HTTP. Providers repeat their calls: the first answer counts. */
const requestPayment = activity('requestPayment', async (ctx, callbackUrl: string) => {
  for (const euros of [12, 99]) {
    const { status } = await fetch(callbackUrl, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ value: { euros } }),
      signal: ctx.signal,
    });
    console.log(`webhook with ${euros} euros: ${status}`);
  }
});

const order = orchestration('order', async (ctx, baseUrl: string) => {
  const { token, promise } = ctx.awakeable<{ readonly euros: number }>({ timeout: '1h' });
  await ctx.call(requestPayment, `${baseUrl}/v1/awakeables/${token}/resolve`);
  const { euros } = await promise;
  return `paid ${euros} euros`;
});

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
await perdure.startWorker({ orchestrations: [order], activities: [requestPayment] });
const server = await serve(perdure, { port: 0 });

const handle = await perdure.client.start(order, server.url);
console.log(await handle.result());
await server.close();
await perdure.close();

// Output:
// webhook with 12 euros: 200
// webhook with 99 euros: 409
// paid 12 euros
