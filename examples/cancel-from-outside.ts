/** Cancel an instance: what the handler sees, what the call answers, what still runs, and how the wait ends. */
import { setTimeout as delay } from 'node:timers/promises';
import { activity, CanceledError, orchestration, Perdure } from 'perdure';

const begun = Promise.withResolvers<void>();

const crawl = activity('crawl', async (ctx, site: string) => {
  begun.resolve();
  while (!ctx.isCanceled) await delay(5); // one page after the other
  await delay(300); // closing connections
  console.log(`left ${site}, because ${(await ctx.canceled()).reason}`);
  ctx.throwIfCanceled();
});

const survey = orchestration('survey', async (ctx, site: string) => {
  await ctx.call(crawl, site);
});

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
await perdure.startWorker({ orchestrations: [survey], activities: [crawl] });
const { client } = perdure;

const handle = await client.start(survey, 'example.org', { id: 'survey-1' });
await begun.promise;

console.log(await handle.cancel({ reason: 'they asked us to', actor: 'ada' }));
for (const { name, attempt } of (await handle.status()).running ?? []) {
  console.log(`${name} still runs, attempt ${attempt}`);
}

// The first reason stays; this one only waits until nothing of the instance runs any more.
console.log(await handle.cancel({ reason: 'too late to say why', wait: true }));
console.log(await client.cancel('survey-2'));

try {
  await handle.result();
} catch (error) {
  if (error instanceof CanceledError) console.log(`canceled: ${error.reason}`);
}
const { cancel } = await handle.status();
console.log(`by ${cancel?.actor}`);
await perdure.close();

// Output:
// { found: true, changed: true, status: 'canceling' }
// crawl still runs, attempt 1
// left example.org, because they asked us to
// { found: true, changed: false, status: 'canceled' }
// { found: false, changed: false, status: null }
// canceled: they asked us to
// by ada
