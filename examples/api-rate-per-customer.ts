/** A rate per customer: each may send 100 requests per minute, and no customer delays another one. */
import { Perdure, task } from 'perdure';

// A minute of this example has 600 ms, so that it ends soon. Your code says '1m'.
const minute = 600;

const ends: string[] = [];

const callApi = task(
  'callApi',
  (_ctx, request: { customer: string; number: number }) => {
    ends.push(request.customer);
    return `${request.customer} ${request.number}`;
  },
  { rate: { limit: 100, per: minute, burst: 5, perKey: true } },
);

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
const { client } = perdure;

// Ada's backlog comes first.
const of = (customer: string, count: number) =>
  Array.from({ length: count }, (_, index) => ({
    task: callApi,
    input: { customer, number: index + 1 },
    options: { key: customer },
  }));
const runs = await client.runTasks([...of('ada', 40), ...of('bob', 3)]);

const startedAt = performance.now();
const worker = await perdure.startWorker({ tasks: [callApi] });
await Promise.all(runs.map((run) => run.result()));
const ms = performance.now() - startedAt;

// 6 requests start immediately: the burst and one more. The others start every 6 ms.
console.log('40 requests of ada take more than 200 ms:', ms > 200);
console.log('bob does not wait for ada:', ends.lastIndexOf('bob') < ends.lastIndexOf('ada'));

// An operator changes the rate for all workers, without a deploy.
const rate = { limit: 1_000, per: minute, perKey: true };
const { effective } = await client.limits.set(callApi, { rate }, { reason: 'new contract' });
console.log('starts per minute:', effective.rate?.limit);
await client.limits.reset(callApi);
console.log('after the reset:', (await client.limits.get(callApi))?.effective.rate?.limit);

await worker.stop();
await perdure.close();

// Output:
// 40 requests of ada take more than 200 ms: true
// bob does not wait for ada: true
// starts per minute: 1000
// after the reset: 100
