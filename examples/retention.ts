/** Retention: policies, a dry run, a sweep, and its audit record. */
import { orchestration, type RetentionPolicy } from 'perdure';
import { createTestEnvironment } from 'perdure/testing';

const order = orchestration('order', async (_ctx, euros: number) => {
  if (euros < 0) throw new Error('an order needs a price');
  return euros;
});

// Never ends: continues as new every day, so it gains one execution per day.
const report = orchestration('report', async (ctx, day: number): Promise<never> => {
  await ctx.sleep('1d');
  return await ctx.continueAsNew(day + 1);
});

const policies: readonly RetentionPolicy[] = [
  { statuses: 'completed', keepFor: '30d' },
  { statuses: 'failed', keepFor: '90d' },
  { keepExecutions: 10 },
];

// In a service, pass `retention: { policies }` to startWorker(): one elected worker sweeps every hour.
// This example sweeps by hand, in a test environment that skips time.
await using env = await createTestEnvironment({ orchestrations: [order, report] });
const { client } = env;
await client.start(report, 1, { id: 'daily-report' });
await client.start(order, 10, { id: 'order-1' });
await client.start(order, -1, { id: 'order-2' });
await env.advance('40d');
await client.start(order, 20, { id: 'order-3' });
await env.settle();

const dry = await client.retention.run({ policies, dryRun: true });
console.log(`would delete: ${dry?.deleted.instancesDeleted} instance`);
console.log(`would prune: ${dry?.pruned.executionsDeleted} executions`);

await client.retention.run({ policies, actor: 'nightly job' });
for (const { id, status } of (await client.list()).items) console.log(`left: ${id}, ${status}`);
const { size } = await client.getInstanceInfo('daily-report');
console.log(`left: ${size.executions} executions of daily-report`);

for (const { action, actor, instancesDeleted } of (await client.listAudit()).items) {
  console.log(`audit: ${action} by ${actor}, ${instancesDeleted} instance`);
}

// Output:
// would delete: 1 instance
// would prune: 31 executions
// left: order-3, completed
// left: order-2, failed
// left: daily-report, running
// left: 10 executions of daily-report
// audit: retention by nightly job, 1 instance
