/** Cancel an instance: the signal in the handler, the result of `cancel()`, running work, and the error of `result()`. */
import { setTimeout as delay } from 'node:timers/promises';
import { activity, CanceledError, orchestration, Perdure } from 'perdure';

const begun = Promise.withResolvers<void>();

const crawl = activity('crawl', async (ctx, site: string) => {
  begun.resolve();
  while (!ctx.isCanceled) await delay(5); // crawls one page at a time
  await delay(300); // closes its connections
  console.log(`stopped crawling ${site}: ${(await ctx.canceled()).reason}`);
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

console.log(await handle.cancel({ reason: 'requested by the site', actor: 'ada' }));
for (const { name, attempt } of (await handle.status()).running ?? []) {
  console.log(`${name} is still running, attempt ${attempt}`);
}

// A second cancel keeps the first reason. With `wait`, it resolves once none of the work runs.
console.log(await handle.cancel({ reason: 'a second reason', wait: true }));
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
// crawl is still running, attempt 1
// stopped crawling example.org: requested by the site
// { found: true, changed: false, status: 'canceled' }
// { found: false, changed: false, status: null }
// canceled: requested by the site
// by ada
