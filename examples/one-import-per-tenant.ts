/** One import at a time for each tenant, and at most 4 over all workers. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Perdure, task } from 'perdure';

interface Import {
  readonly tenant: string;
  readonly file: string;
}

const running = new Map<string, number>();
let mostPerTenant = 0;
let mostInTotal = 0;

const importFile = task(
  'importFile',
  async (_ctx, { tenant, file }: Import) => {
    running.set(tenant, (running.get(tenant) ?? 0) + 1);
    mostPerTenant = Math.max(mostPerTenant, ...running.values());
    mostInTotal = Math.max(
      mostInTotal,
      [...running.values()].reduce((sum, count) => sum + count),
    );
    await sleep(10);
    running.set(tenant, (running.get(tenant) ?? 0) - 1);
    return `${tenant}/${file}`;
  },
  { concurrency: { global: 4, perKey: 1 } },
);

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
const { client } = perdure;

const tenants = ['acme', 'globex', 'initech', 'umbrella', 'hooli', 'stark'];
const imports = tenants.flatMap((tenant) =>
  ['1.csv', '2.csv', '3.csv'].map((file) => ({ tenant, file })),
);
const runs = await client.runTasks(
  imports.map((input) => ({ task: importFile, input, options: { key: input.tenant } })),
);

// Two workers share the limits.
const workers = await Promise.all([
  perdure.startWorker({ tasks: [importFile], name: 'a' }),
  perdure.startWorker({ tasks: [importFile], name: 'b' }),
]);
const results = await Promise.all(runs.map((run) => run.result()));

console.log(`${results.length} imports of ${tenants.length} tenants`);
console.log('at most one per tenant:', mostPerTenant === 1);
console.log('at most 4 in total:', mostInTotal <= 4);

await Promise.all(workers.map((worker) => worker.stop()));
await perdure.close();

// Output:
// 18 imports of 6 tenants
// at most one per tenant: true
// at most 4 in total: true
