import { Perdure, task } from 'perdure';
import { check, type BenchmarkSetup, type Figures } from '../benchmark.ts';

const nothing = task('nothing', () => undefined);
// The same concurrency as the peers. The default is meant for handlers that wait.
const activityConcurrency = 500;

/** Empty tasks: enqueued in batches, then run by a worker that starts after the last batch. */
export async function taskThroughput({ store, quick }: BenchmarkSetup): Promise<Figures> {
  await using perdure = await Perdure.open(store);
  const count = quick ? 2_000 : 10_000;
  const cold = await enqueueAndRun(perdure, count);
  const warm = await enqueueAndRun(perdure, count);
  return {
    enqueuedPerSecond: count / warm.enqueueSeconds,
    ranPerSecond: count / warm.runSeconds,
    coldRanPerSecond: count / cold.runSeconds,
  };
}

async function enqueueAndRun(
  perdure: Perdure,
  count: number,
): Promise<{ readonly enqueueSeconds: number; readonly runSeconds: number }> {
  const begun = performance.now();
  await perdure.client.runTasks(Array.from({ length: count }, () => ({ task: nothing })));
  const enqueued = performance.now();
  const { promise: allEnded, resolve } = Promise.withResolvers<void>();
  let ended = 0;
  const taskEnded = ({ status }: { readonly status: string }): void => {
    check(status === 'completed', 'a task');
    ended += 1;
    if (ended === count) resolve();
  };
  const worker = await perdure.startWorker({
    tasks: [nothing],
    activityConcurrency,
    hooks: { taskEnded },
  });
  await allEnded;
  const done = performance.now();
  await worker.stop();
  return { enqueueSeconds: (enqueued - begun) / 1_000, runSeconds: (done - enqueued) / 1_000 };
}
