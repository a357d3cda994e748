/** Test a month in milliseconds: the test environment skips to the next timer when nothing else is due. */
import { activity, event, orchestration } from 'perdure';
import { createTestEnvironment } from 'perdure/testing';

const unsubscribed = event<string>('unsubscribed');

const mail = activity('mail', async (_ctx, text: string) => {
  console.log(`mail: ${text}`);
});

const trial = orchestration('trial', async (ctx, customer: string) => {
  await ctx.call(mail, `welcome, ${customer}`);
  const end = await ctx.select({ unsubscribed: ctx.waitFor(unsubscribed), over: ctx.sleep('30d') });
  if (end.key === 'unsubscribed') return `unsubscribed: ${end.value}`;
  await ctx.call(mail, `${customer}, your trial is over`);
  return 'subscribed';
});

const env = await createTestEnvironment({ orchestrations: [trial], activities: [mail] });

const stays = await env.client.start(trial, 'Ada');
console.log(await env.result(stays));

const leaves = await env.client.start(trial, 'Grace');
await env.advance('10d');
await leaves.raiseEvent(unsubscribed, 'too expensive');
console.log(await env.result(leaves));

await env.close();

// Output:
// mail: welcome, Ada
// mail: Ada, your trial is over
// subscribed
// mail: welcome, Grace
// unsubscribed: too expensive
