/** Test what takes a month in milliseconds: the test environment skips time whenever nothing is left to do. */
import { activity, event, orchestration } from 'perdure';
import { createTestEnvironment } from 'perdure/testing';

const cancelled = event<string>('cancelled');

const mail = activity('mail', async (_ctx, text: string) => {
  console.log(`mail: ${text}`);
});

const trial = orchestration('trial', async (ctx, customer: string) => {
  await ctx.call(mail, `welcome, ${customer}`);
  const end = await ctx.select({ cancelled: ctx.waitFor(cancelled), over: ctx.sleep('30d') });
  if (end.key === 'cancelled') return `cancelled: ${end.value}`;
  await ctx.call(mail, `${customer}, your trial is over`);
  return 'subscribed';
});

const env = await createTestEnvironment({ orchestrations: [trial], activities: [mail] });

const stays = await env.client.start(trial, 'Ada');
console.log(await env.result(stays));

const leaves = await env.client.start(trial, 'Grace');
await env.advance('10d');
await leaves.raiseEvent(cancelled, 'too dear');
console.log(await env.result(leaves));

await env.close();

// Output:
// mail: welcome, Ada
// mail: Ada, your trial is over
// subscribed
// mail: welcome, Grace
// cancelled: too dear
