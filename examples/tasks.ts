/** Background jobs: retries, priorities, headers, a dedupe key, and an `onFail` handler. */
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

const notified = Promise.withResolvers<string>();

const bill = task(
  'bill',
  (_ctx, customer: string) => {
    throw new Error(`${customer} has no address`);
  },
  {
    onFail: {
      handler: (ctx, { input, failure }) => {
        notified.resolve(`${ctx.runId}: check ${input}: ${failure.message}`);
      },
    },
  },
);

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
const { client } = perdure;

// Both are queued until a worker starts; the higher priority runs first.
const headers = { trace: 't-1' };
const [ada, bob] = await client.runTasks([
  { task: sendMail, input: { to: 'ada', subject: 'News' }, options: { headers } },
  { task: sendMail, input: { to: 'bob', subject: 'Alarm' }, options: { headers, priority: 50 } },
]);
const worker = await perdure.startWorker({ tasks: [sendMail, bill], activityConcurrency: 1 });
console.log(await bob.result());
console.log(await ada.result());

// While a run with this key is active, another start returns that run.
const dedupeKey = 'customer 7';
const first = await client.runTask(bill, 'customer 7', { dedupeKey, id: 'b-7', delay: '1s' });
const second = await client.runTask(bill, 'customer 7', { dedupeKey });
console.log(second.id, second.created);

try {
  await first.result();
} catch (error) {
  if (error instanceof FailedError) console.log(`failed: ${error.failure.message}`);
}
console.log(await notified.promise);
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
// b-7: check customer 7: customer 7 has no address
// completed
