/**
 * `node pg-boss.mjs tasks|limits <setup as JSON>`: empty jobs, inserted in bulk and then run in batches. `limits` runs at most
 * one job of each of 1,000 groups, and then at most 100 jobs of one group, in all processes together. It has no rate of runs.
 */
import { PgBoss } from 'pg-boss';
import { measurePasses } from '../task-passes.ts';

const what = process.argv[2];
const { store, quick } = JSON.parse(process.argv[3] ?? '{}');
const count = quick ? 2_000 : 10_000;
const queue = 'nothing';

const boss = new PgBoss({ connectionString: store, max: 16, schedule: false, supervise: false });
boss.on('error', (error) => {
  throw error;
});
await boss.start();
await boss.createQueue(queue);

async function leftOver() {
  const { rows } = await boss
    .getDb()
    .executeSql(`SELECT count(*)::int AS count FROM pgboss.job WHERE state <> 'completed'`);
  return rows[0].count;
}

/** With `limit`, the jobs have that many groups in turn, each with its number of concurrent jobs. */
async function enqueueAndRun(limit) {
  const begun = performance.now();
  let left = count;
  const insert = async () => {
    while (left > 0) {
      left -= 1_000;
      await boss.insert(
        queue,
        Array.from({ length: 1_000 }, (_, number) => ({
          data: {},
          ...(limit && { group: { id: `key ${number % limit.groups}` } }),
        })),
      );
    }
  };
  // Two batches at a time, as `runTasks` of Perdure.
  await Promise.all([insert(), insert()]);
  const enqueued = performance.now();
  const { promise: allEnded, resolve } = Promise.withResolvers();
  let ended = 0;
  // After a full batch, a worker fetches again immediately; several workers keep the connections busy meanwhile.
  const options = {
    ...(limit?.batches ?? { batchSize: 500, localConcurrency: 4 }),
    burstWhenBatchFull: true,
    pollingIntervalSeconds: 0.5,
    ...(limit && { groupConcurrency: limit.concurrency }),
  };
  await boss.work(queue, options, (jobs) => {
    ended += jobs.length;
    if (ended === count) resolve();
    return Promise.resolve();
  });
  await allEnded;
  // The acks of the last batches may be in flight.
  while ((await leftOver()) > 0);
  const done = performance.now();
  await boss.offWork(queue, { wait: true });
  return { enqueueSeconds: (enqueued - begun) / 1_000, runSeconds: (done - enqueued) / 1_000 };
}

async function measure(limit) {
  await enqueueAndRun(limit);
  const { enqueueSeconds, runSeconds } = await enqueueAndRun(limit);
  return [count / enqueueSeconds, count / runSeconds];
}

let figures = {};
if (what === 'limits') {
  const perKey = await measure({ groups: 1_000, concurrency: 1 });
  [figures.perKey1EnqueuedPerSecond, figures.perKey1RanPerSecond] = perKey;
  // Full batches: after one that is not, a worker waits for its next poll.
  const batches = { batchSize: 25, localConcurrency: 4 };
  const global = await measure({ groups: 1, concurrency: 100, batches });
  [figures.global100EnqueuedPerSecond, figures.global100RanPerSecond] = global;
} else {
  figures = await measurePasses(count, enqueueAndRun);
}
await boss.stop();
process.stdout.write(JSON.stringify(figures));
