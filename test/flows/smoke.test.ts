import { expect, it } from 'vitest';
import { event } from 'perdure';
import { createTestEnvironment } from 'perdure/testing';
import { flow, gt } from 'perdure/flows';

it('smoke', async () => {
  const order = flow('order')
    .input<{ total: number; items: string[] }>()
    .step('charge', (_ctx, { input }) => input.total * 2)
    .step('discount', { when: ({ input }) => gt(input.total, 100) }, () => 10)
    .map(
      'pack',
      { needs: ['charge'], over: ({ input }) => input.items },
      (_ctx, item, { charge }) => `${item}:${charge}`,
    )
    .reduce('label', { over: ({ pack }) => pack, initial: '' }, (_ctx, all, item) => all + item)
    .generator(
      'gen',
      { after: ['charge'] },
      async function* () {
        for (let i = 0; i < 250; i++) yield i;
      },
      (_ctx, n) => n + 1,
    )
    .step(
      'ship',
      { needs: ['label', 'gen'], optional: ['discount'], signal: event<string>('go') },
      (_ctx, { label, discount, gen, signal }) => ({
        label,
        discount,
        gen: gen.length,
        last: gen.at(-1),
        signal,
      }),
    )
    .output();
  await using env = await createTestEnvironment({ flows: [order] });
  const run = await env.client.runFlow(order, { total: 5, items: ['a', 'b'] }, { id: 'x' });
  await run.raiseEvent('$signal/go', { token: 't', payload: 'hi' });
  expect(await env.result(run)).toEqual({ label: 'a:10b:10', gen: 250, last: 250, signal: 'hi' });
});
