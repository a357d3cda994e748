import { Perdure, task } from 'perdure';
import { check, type BenchmarkSetup, type Figures } from '../benchmark.ts';
import { measurePasses } from '../task-passes.ts';

const nothing = task('nothing', () => undefined);

/** Empty tasks: enqueued in batches, then run by a worker that starts after the last batch. */
export async function taskThroughput(setup: BenchmarkSetup): Promise<Figures> {
  return await measure(setup, {});
}

/** The same with the concurrency of the peers. The default is meant for handlers that wait. */
export async function taskThroughputOf500(setup: BenchmarkSetup): Promise<Figures> {
  return await measure(setup, { activityConcurrency: 500 });
}

async function measure(
  { store, quick }: BenchmarkSetup,
  options: { readonly activityConcurrency?: number },
): Promise<Figures> {
  await using perdure = await Perdure.open(store);
  const count = quick ? 2_000 : 10_000;
  return await measurePasses(count, () => enqueueAndRun(perdure, count, options));
}

async function enqueueAndRun(
  perdure: Perdure,
  count: number,
  options: { readonly activityConcurrency?: number },
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
  const worker = await perdure.startWorker({ tasks: [nothing], ...options, hooks: { taskEnded } });
  await allEnded;
  const done = performance.now();
  await worker.stop();
  return { enqueueSeconds: (enqueued - begun) / 1_000, runSeconds: (done - enqueued) / 1_000 };
}
