/** Background jobs: retries, priorities, a key that keeps two from running at once, and what happens after a failure. */
import { FailedError, Perdure, task } from 'perdure';

const sendMail = task(
  'sendMail',
  async (ctx, mail: { to: string; subject: string }) => {
    if (ctx.attempt === 1 && mail.to === 'ada') throw new Error('the mail server does not answer');
    console.log(`to ${mail.to}: ${mail.subject} (attempt ${ctx.attempt}, ${ctx.headers['trace']})`);
    return `sent to ${mail.to}`;
  },
  { retry: { maxAttempts: 3, initialDelay: '10ms' } },
);

const told = Promise.withResolvers<string>();

const bill = task(
  'bill',
  (_ctx, customer: string) => {
    throw new Error(`${customer} has no address`);
  },
  {
    onFail: {
      handler: (ctx, { input, failure }) => {
        told.resolve(`${ctx.runId}: look at ${input}, because ${failure.message}`);
      },
    },
  },
);

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
const { client } = perdure;

// Both wait until there is a worker; the more urgent one is taken first.
const headers = { trace: 't-1' };
const [ada, bob] = await client.runTasks([
  { task: sendMail, input: { to: 'ada', subject: 'News' }, options: { headers } },
  { task: sendMail, input: { to: 'bob', subject: 'Alarm' }, options: { headers, priority: 50 } },
]);
const worker = await perdure.startWorker({ tasks: [sendMail, bill], activityConcurrency: 1 });
console.log(await bob.result());
console.log(await ada.result());

// While a run with the key is active, a second request finds it.
const dedupeKey = 'customer 7';
const first = await client.runTask(bill, 'customer 7', { dedupeKey, id: 'b-7', delay: '1s' });
const second = await client.runTask(bill, 'customer 7', { dedupeKey });
console.log(second.id, second.created);

try {
  await first.result();
} catch (error) {
  if (error instanceof FailedError) console.log(`failed: ${error.failure.message}`);
}
console.log(await told.promise);
await worker.stop();
console.log((await first.status()).task?.onFail);
await perdure.close();

// Output:
// to bob: Alarm (attempt 1, t-1)
// sent to bob
// to ada: News (attempt 2, t-1)
// sent to ada
// b-7 false
// failed: customer 7 has no address
// b-7: look at customer 7, because customer 7 has no address
// completed
