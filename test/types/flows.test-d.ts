/** What the compiler accepts and rejects in flows. `tsc` is the test; nothing here runs. */
import { event, type Client, type Handle, type Perdure } from 'perdure';
import { and, contains, eq, flow, gt, oneOf, signalFlow, type FlowDefinition } from 'perdure/flows';
import { exactly } from './exactly.ts';

declare const client: Client;
declare const perdure: Perdure;

interface Order {
  readonly euros: number;
  readonly country: 'NL' | 'BE';
  readonly lines: readonly { readonly sku: string; readonly quantity: number }[];
}

const approved = event<{ readonly by: string }>('approved');

// Steps get the typed outputs of their dependencies.
const order = flow('order')
  .input<Order>()
  .step('charge', async (_ctx, { input }) => {
    exactly<Order>()(input);
    return { receipt: 'r', euros: input.euros };
  })
  .step('discount', { when: ({ input }) => gt(input.euros, 100) }, () => 10)
  .map('pack', { needs: ['charge'], over: ({ input }) => input.lines }, (ctx, line, given) => {
    exactly<{ readonly sku: string; readonly quantity: number }>()(line);
    exactly<{ readonly receipt: string; readonly euros: number }>()({ ...given.charge });
    exactly<number | undefined>()(ctx.index);
    return line.sku;
  })
  .reduce('label', { over: ({ pack }) => pack, initial: '' }, (_ctx, label, sku) => {
    exactly<string>()(label);
    exactly<string>()(sku);
    return label + sku;
  })
  .generator(
    'pages',
    { after: ['charge'], resumes: true },
    async function* (ctx, { input }) {
      exactly<number>()(ctx.yielded);
      yield input.euros;
    },
    (_ctx, page) => {
      exactly<number>()(page);
      return String(page);
    },
  )
  .step(
    'ship',
    { needs: ['label', 'pages'], optional: ['discount'], signal: approved, timeout: '1h' },
    (_ctx, { input, label, pages, discount, signal }) => {
      exactly<Order>()(input);
      exactly<string>()(label);
      exactly<readonly string[]>()(pages);
      exactly<number | undefined>()(discount);
      exactly<{ readonly by: string }>()(signal);
      return new Date();
    },
  )
  .onFail((_ctx, failure) => {
    exactly<Order>()(failure.input);
    exactly<number | undefined>()(failure.outputs.discount);
    exactly<'charge' | 'discount' | 'pack' | 'label' | 'pages' | 'ship' | undefined>()(
      failure.step,
    );
  });

// The output is that of the steps without dependents, or of the named ones.
exactly<FlowDefinition<Order, Date>>()(order.output());
exactly<FlowDefinition<Order, number | string>>()(order.output('discount', 'label'));
exactly<FlowDefinition<undefined, string | number>>()(
  flow('two')
    .step('a', () => 'a')
    .step('b', async () => 5)
    .output(),
);
exactly<FlowDefinition<undefined, string | boolean>>()(
  flow('early')
    .completesEarly<boolean>()
    .step('a', (ctx) => {
      if (ctx.attempt > 3) ctx.completeEarly(true, 'tried enough');
      return 'a';
    })
    .output(),
);

// Clients and workers accept flows.
exactly<Promise<Handle<Date>>>()(
  client.runFlow(order.output(), { euros: 1, country: 'NL', lines: [] }),
);
void perdure.startWorker({
  flows: [
    order.output(),
    flow('f')
      .step('a', () => 1)
      .output(),
  ],
});
void client.runFlow(
  flow('f')
    .step('a', () => 1)
    .output(),
);
// @ts-expect-error the input is missing
void client.runFlow(order.output());
// @ts-expect-error the input is of the wrong type
void client.runFlow(order.output(), { euros: '1' });
// @ts-expect-error a flow that is not ended cannot be run
void client.runFlow(order);
// @ts-expect-error a flow that is not ended cannot be registered
void perdure.startWorker({ flows: [order] });

void signalFlow(client, 'id', approved, { by: 'me' });
void signalFlow(client, 'id', 'approved', 5);
// @ts-expect-error the payload is missing
void signalFlow(client, 'id', approved);
// @ts-expect-error the payload is of the wrong type
void signalFlow(client, 'id', approved, { by: 5 });

// @ts-expect-error there is no such step
order.step('x', { needs: ['nobody'] }, () => 1);
// @ts-expect-error there is no such step
order.step('x', { after: ['nobody'] }, () => 1);
// @ts-expect-error a step that may be skipped is not needed but optional
order.step('x', { needs: ['discount'] }, () => 1);
// @ts-expect-error it depends on nothing
order.step('x', (_ctx, { charge }) => charge);
// @ts-expect-error an output may be missing
order.step('x', { optional: ['discount'] }, (_ctx, { discount }) => discount + 1);
// @ts-expect-error there is no such step
order.output('nobody');
// @ts-expect-error an option is misspelt
order.step('x', { neds: ['charge'] }, () => 1);
// @ts-expect-error the input has no such property
order.step('x', { when: ({ input }) => gt(input.cents, 5) }, () => 1);
// @ts-expect-error a number is no text
order.step('x', { when: ({ input }) => eq(input.euros, '5') }, () => 1);
// @ts-expect-error there is no such country
order.step('x', { when: ({ input }) => oneOf(input.country, ['FR']) }, () => 1);
// @ts-expect-error a condition is not a truth value
order.step('x', { when: ({ input }) => input.euros > 5 }, () => 1);
// @ts-expect-error the condition looks at what it does not depend on
order.step('x', { when: ({ charge }) => gt(charge.euros, 5) }, () => 1);
order.step(
  'x',
  {
    needs: ['charge'],
    when: ({ input, charge }) =>
      and(gt(charge.euros, 5), eq(charge.euros, input.euros), contains(charge.receipt, 'r')),
  },
  () => 1,
);
// @ts-expect-error a map needs an array
order.map('x', { over: ({ charge }) => charge }, (_ctx, item) => item);
// @ts-expect-error a map needs an array
order.map('x', { over: ({ input }) => input.euros }, (_ctx, item) => item);
// @ts-expect-error the source may be skipped
order.map('x', { over: ({ discount }) => discount }, (_ctx, item) => item);
// @ts-expect-error what is folded has the type of the beginning
order.reduce('x', { over: ({ pack }) => pack, initial: 0 }, (_ctx, sum, sku) => sku);
order.step('x', (ctx) => {
  // @ts-expect-error this flow does not say what it may complete early with
  ctx.completeEarly(5, 'why');
});
