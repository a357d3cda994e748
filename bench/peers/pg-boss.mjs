/**
 * `node pg-boss.mjs tasks|limits <setup as JSON>`: empty jobs, inserted in bulk and then run in batches. `limits` runs at most
 * one job of each of 1,000 groups, in all processes together.
 */
import { PgBoss } from 'pg-boss';

const what = process.argv[2];
const { store, quick } = JSON.parse(process.argv[3] ?? '{}');
const count = quick ? 2_000 : 10_000;
const queue = 'nothing';
const groups = 1_000;

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

async function enqueueAndRun() {
  const begun = performance.now();
  for (let done = 0; done < count; done += 1_000) {
    await boss.insert(
      queue,
      Array.from({ length: 1_000 }, (_, number) => ({
        data: {},
        ...(what === 'limits' && { group: { id: `key ${number % groups}` } }),
      })),
    );
  }
  const enqueued = performance.now();
  const { promise: allEnded, resolve } = Promise.withResolvers();
  let ended = 0;
  // After a full batch, a worker fetches again immediately; several workers keep the connections busy meanwhile.
  const options = {
    batchSize: 500,
    localConcurrency: 4,
    burstWhenBatchFull: true,
    pollingIntervalSeconds: 0.5,
    ...(what === 'limits' && { groupConcurrency: 1 }),
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

await enqueueAndRun();
const warm = await enqueueAndRun();
await boss.stop();
process.stdout.write(
  JSON.stringify({
    enqueuedPerSecond: count / warm.enqueueSeconds,
    ranPerSecond: count / warm.runSeconds,
  }),
);
