/**
 * `node dbos-queues.mjs limits <setup as JSON>`: empty workflows in queues of DBOS. `startWorkflow` is the documented way to
 * enqueue; 64 calls run concurrently.
 */
import { DBOS } from '@dbos-inc/dbos-sdk';
import pg from 'pg';
import { check, runInLanes } from '../benchmark.ts';

const { store, quick } = JSON.parse(process.argv[3] ?? '{}');
const count = quick ? 500 : 2_000;
const keyCount = 1_000;
// The default of 1,000 ms would decide the result.
const minPollingIntervalMs = 20;

let ended = 0;
let allEnded = Promise.withResolvers();
const nothing = DBOS.registerWorkflow(
  () => {
    ended += 1;
    if (ended === count) allEnded.resolve();
    return Promise.resolve();
  },
  { name: 'nothing' },
);

async function leftOver() {
  const { rows } = await database.query(
    `SELECT count(*)::int AS count FROM dbos.workflow_status WHERE status <> 'SUCCESS'`,
  );
  return rows[0].count;
}

/** Enqueues while the queue runs, as DBOS does. The rate includes both. */
async function enqueueAndRun(queueName, keys) {
  ended = 0;
  allEnded = Promise.withResolvers();
  const begun = performance.now();
  let number = 0;
  await runInLanes(count, 64, async () => {
    number += 1;
    const enqueueOptions = keys > 0 ? { queuePartitionKey: `key ${number % keys}` } : {};
    await DBOS.startWorkflow(nothing, { queueName, enqueueOptions })();
  });
  await allEnded.promise;
  // The ends of the last workflows may be in flight.
  while ((await leftOver()) > 0);
  check(ended === count, 'the workflows');
  return count / ((performance.now() - begun) / 1_000);
}

DBOS.setConfig({
  name: 'bench',
  systemDatabaseUrl: store,
  systemDatabasePoolSize: 20,
  logLevel: 'error',
});
await DBOS.launch();
const database = new pg.Client({ connectionString: store });
await database.connect();
const queues = {
  unlimited: [{}, 0],
  global100: [{ globalConcurrency: 100 }, 0],
  perKey1: [{ partitionConcurrency: 1 }, keyCount],
  highRate: [{ rateLimit: { limitPerPeriod: 1_000_000, periodSec: 1 } }, 0],
};
const figures = {};
for (const [name, [limits, keys]] of Object.entries(queues)) {
  await DBOS.registerQueue(name, { ...limits, minPollingIntervalMs });
  figures[`${name}PerSecond`] = await enqueueAndRun(name, keys);
}
await database.end();
await DBOS.shutdown();
process.stdout.write(JSON.stringify(figures));
