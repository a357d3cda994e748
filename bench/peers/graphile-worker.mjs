/**
 * `node graphile-worker.mjs tasks|limits <setup as JSON>`: empty jobs, added in bulk and then run with the settings of its
 * performance page: a local queue, and completions in batches. `limits` has 1,000 named queues, which run one job at a time.
 */
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import { measurePasses } from '../task-passes.ts';

const what = process.argv[2];
const { store, quick } = JSON.parse(process.argv[3] ?? '{}');
const count = quick ? 2_000 : 10_000;
const silent = new Logger(() => () => undefined);

const utils = await makeWorkerUtils({ connectionString: store, logger: silent });
await utils.migrate();

async function leftOver() {
  const { rows } = await utils.withPgClient((client) =>
    client.query('SELECT count(*)::int AS count FROM graphile_worker.jobs'),
  );
  return rows[0].count;
}

async function enqueueAndRun() {
  const begun = performance.now();
  let left = count;
  const add = async () => {
    while (left > 0) {
      left -= 1_000;
      await utils.addJobs(
        Array.from({ length: 1_000 }, (_, number) => ({
          identifier: 'nothing',
          payload: {},
          ...(what === 'limits' && { queueName: `key ${number}` }),
        })),
      );
    }
  };
  // Two batches at a time, as `runTasks` of Perdure.
  await Promise.all([add(), add()]);
  const enqueued = performance.now();
  const { promise: allEnded, resolve } = Promise.withResolvers();
  let ended = 0;
  const runner = await run({
    preset: {
      worker: {
        connectionString: store,
        concurrentJobs: 24,
        maxPoolSize: 25,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      },
    },
    logger: silent,
    noHandleSignals: true,
    taskList: {
      nothing: () => {
        ended += 1;
        if (ended === count) resolve();
      },
    },
  });
  await allEnded;
  // The completions of the last batches may be in flight.
  while ((await leftOver()) > 0);
  const done = performance.now();
  await runner.stop();
  return { enqueueSeconds: (enqueued - begun) / 1_000, runSeconds: (done - enqueued) / 1_000 };
}

const figures = await measurePasses(count, enqueueAndRun);
await utils.release();
process.stdout.write(JSON.stringify(figures));
