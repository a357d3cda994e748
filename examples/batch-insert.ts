/** A batch handler: one call inserts the rows of many runs, and settles each run by itself. */
import { FailedError, Perdure, task, type BatchRun } from 'perdure';

interface Reading {
  readonly sensor: string;
  readonly celsius: number;
}

/** Stands for a table whose bulk insert costs the same for one row and for a hundred. */
const table: Reading[] = [];

const insertReadings = task(
  'insert-readings',
  async (ctx, runs: readonly BatchRun<Reading, number>[]) => {
    ctx.throwIfCanceled();
    const rows = [];
    for (const run of runs) {
      // A run that was canceled is skipped. The others go on.
      if (run.isCanceled) continue;
      if (run.input.celsius < -273) run.fail(new Error(`${run.input.celsius} °C does not exist`));
      else rows.push(run);
    }
    console.log(`insert ${rows.length} of ${runs.length} rows`);
    table.push(...rows.map(({ input }) => input));
    for (const [index, run] of rows.entries()) run.complete(index);
  },
  { batch: { max: 50, wait: '500ms' }, retry: { maxAttempts: 2, initialDelay: '10ms' } },
);

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
const { client } = perdure;

const celsius = Array.from({ length: 100 }, (_, index) => (index === 99 ? -300 : index / 4));
const handles = await client.runTasks(
  celsius.map((value) => ({ task: insertReadings, input: { sensor: 'roof', celsius: value } })),
);
const worker = await perdure.startWorker({ tasks: [insertReadings], activityConcurrency: 1 });

const outcomes = await Promise.allSettled(handles.map((handle) => handle.result()));
for (const outcome of outcomes) {
  if (outcome.status === 'fulfilled') continue;
  if (!(outcome.reason instanceof FailedError)) throw outcome.reason;
  console.log(`failed after ${outcome.reason.failure.attempts} attempts`);
}
console.log(`${table.length} rows`);
await worker.stop();
await perdure.close();

// Output:
// insert 50 of 50 rows
// insert 49 of 50 rows
// insert 0 of 1 rows
// failed after 2 attempts
// 99 rows
