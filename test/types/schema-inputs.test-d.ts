/** Callers pass the input type of a schema, handlers get its output type. `tsc` is the test; nothing here runs. */
import {
  activity,
  event,
  orchestration,
  task,
  type FailedRun,
  type OrchestrationContext,
  type Perdure,
  type StandardSchema,
} from 'perdure';
import { eq, flow, signalFlow } from 'perdure/flows';
import * as z from 'zod';
import { exactly } from './exactly.ts';

interface Parsed {
  currency: string;
  cents: number;
}
const order = z.object({
  currency: z.string().default('EUR'),
  cents: z.string().transform(Number),
});

declare const perdure: Perdure;
const { client } = perdure;

const charge = activity(
  'charge',
  (_ctx, input) => {
    exactly<Parsed>()(input);
    return input.cents;
  },
  { input: order },
);
const annotated = activity('annotated', (_ctx, input: Parsed) => input.cents, { input: order });
const buy = orchestration(
  'buy',
  async (ctx, input) => {
    exactly<Parsed>()(input);
    exactly<OrchestrationContext<{ currency?: string | undefined; cents: string }>>()(ctx);
    exactly<number>()(await ctx.call(charge, { cents: '5' }));
    exactly<number>()(await ctx.call(annotated, { cents: '5', currency: 'USD' }));
    // @ts-expect-error the schema takes text
    void ctx.call(charge, { cents: 5 });
    // @ts-expect-error the next input is what the schema takes, too
    await ctx.continueAsNew({ cents: 5 });
    await ctx.continueAsNew({ cents: '5' });
    return input.currency;
  },
  { input: order },
);
const mail = task('mail', (_ctx, input) => exactly<Parsed>()(input), {
  input: order,
  condition: (input) => {
    exactly<Parsed>()(input);
    return true;
  },
  // `onFail` gets the stored input, which the schema may have rejected.
  onFail: {
    handler: (_ctx, failed) => {
      exactly<FailedRun<{ currency?: string | undefined; cents: string }>>()(failed);
    },
  },
});
const paid = event('paid', { schema: order });
const shop = flow('shop')
  .input(order)
  .step('pay', { when: ({ input }) => eq(input.cents, 5), signal: paid }, (_ctx, given) => {
    exactly<Parsed>()(given.input);
    exactly<Parsed>()(given.signal);
    return given.input.cents;
  })
  .output();

// Clients can omit properties with a default.
exactly<Promise<string>>()((await client.start(buy, { cents: '5' })).result());
void client.runTask(mail, { cents: '5' });
void client.runTasks([{ task: mail, input: { cents: '5' } }]);
void client.runFlow(shop, { cents: '5' });
void client.submit(buy, { cents: '5' });
void client.raiseEvent('b-1', paid, { cents: '5' });
void signalFlow(client, 's-1', paid, { cents: '5' });
void client.schedules.put('hourly', { every: '1h', task: mail, input: { cents: '5' } });
void client.schedules.put('daily', { cron: '@daily', flow: shop, input: { cents: '5' } });
orchestration('waits', async (ctx) => {
  exactly<Parsed>()(await ctx.waitFor(paid));
  exactly<string>()(await ctx.child(buy, { cents: '5' }));
  void ctx.startDetached(buy, { cents: '5' }, { id: 'b-2' });
});

// @ts-expect-error the schema takes text
void client.start(buy, { cents: 5 });
// @ts-expect-error a property is missing
void client.runTask(mail, {});
// @ts-expect-error the schema takes text
void client.runFlow(shop, { cents: 5 });
// @ts-expect-error the schema takes text
void client.raiseEvent('b-1', paid, { cents: 5 });
// @ts-expect-error the schema takes text
void signalFlow(client, 's-1', paid, { cents: 5 });
// @ts-expect-error the handler gets a number
activity('wrong', (_ctx, input: { cents: string }) => input.cents, { input: order });

// An input with a default can be omitted.
const greet = orchestration('greet', async (_ctx, name) => exactly<string>()(name), {
  input: z.string().default('you'),
});
void client.start(greet);

// Explicit types: what the handler gets, its output, what callers pass.
declare const day: StandardSchema<string, Date>;
const report = task<Date, number, string>('report', (_ctx, date) => date.getTime(), { input: day });
void client.runTask(report, '2030-01-01');
// A worker accepts all of them together.
void perdure.startWorker({
  orchestrations: [buy, greet],
  activities: [charge, annotated],
  tasks: [mail, report],
  flows: [shop],
});
