/** A flow: steps run as soon as their dependencies complete. With a map, a reduce, a condition, a signal and a read model. */
import { event, Perdure } from 'perdure';
import { flow, gt, readFlowRun, signalFlow } from 'perdure/flows';

interface Order {
  readonly customer: string;
  readonly lines: readonly { readonly sku: string; readonly euros: number }[];
}

const approved = event<{ readonly by: string }>('approved');

const order = flow('order')
  .input<Order>()
  // One call per line, at most ten concurrently; each is retried on its own.
  .map(
    'reserve',
    { over: ({ input }) => input.lines, concurrency: 10, retry: { maxAttempts: 5 } },
    (_ctx, line) => ({ sku: line.sku, euros: line.euros }),
  )
  // Folds the items in order, while later lines are still being reserved.
  .reduce(
    'total',
    { over: ({ reserve }) => reserve, initial: 0 },
    (_ctx, sum, { euros }) => sum + euros,
  )
  // Skipped unless the condition is true. The condition is data, stored with the run.
  .step(
    'approve',
    { needs: ['total'], when: ({ total }) => gt(total, 100), signal: approved },
    (_ctx, { signal }) => signal.by,
  )
  // Depends on a step that may be skipped, so its handler must accept undefined.
  .step(
    'charge',
    { needs: ['total'], optional: ['approve'], timeout: '1h' },
    (_ctx, { input, total, approve }) =>
      `${input.customer} pays ${total} €, ${approve === undefined ? 'no approval needed' : `approved by ${approve}`}`,
  )
  .output();

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
await perdure.startWorker({ flows: [order] });
const { client } = perdure;

const small = await client.runFlow(order, {
  customer: 'Ada',
  lines: [
    { sku: 'pen', euros: 3 },
    { sku: 'ink', euros: 9 },
  ],
});
console.log(await small.result());

const large = await client.runFlow(order, {
  customer: 'Bob',
  lines: [{ sku: 'desk', euros: 400 }],
});
await signalFlow(client, large.id, approved, { by: 'Mia' });
console.log(await large.result());

const run = await readFlowRun(client, small.id);
for (const step of run?.steps ?? []) console.log(`${step.name}: ${step.status}`);
await perdure.close();

// Output:
// Ada pays 12 €, no approval needed
// Bob pays 400 €, approved by Mia
// reserve: completed
// total: completed
// approve: skipped
// charge: completed
