import { Perdure } from 'perdure';
import {
  check,
  measureRate,
  percentile,
  runInLanes,
  type BenchmarkSetup,
  type Figures,
} from '../benchmark.ts';
import { definitions, hello } from '../definitions.ts';

const starts = 64;

/** Instances with one activity, from start to result, 64 concurrently, in one process. */
export async function helloThroughput({ store, quick }: BenchmarkSetup): Promise<Figures> {
  await using perdure = await Perdure.open(store);
  await perdure.startWorker(definitions);
  const run = async (): Promise<void> => {
    const handle = await perdure.client.start(hello, 'World');
    check((await handle.result()) === 'Hello, World!', 'hello');
  };
  return await measureRate(quick, starts, run);
}

/** One instance at a time: the time from start to result, of the first instances of the process and after them. */
export async function helloLatency({ store, quick }: BenchmarkSetup): Promise<Figures> {
  await using perdure = await Perdure.open(store);
  await perdure.startWorker(definitions);
  const latencies: number[] = [];
  const run = async (): Promise<void> => {
    const begun = performance.now();
    const handle = await perdure.client.start(hello, 'World');
    check((await handle.result()) === 'Hello, World!', 'hello');
    latencies.push(performance.now() - begun);
  };
  const count = quick ? 200 : 1_000;
  await runInLanes(count, 1, run);
  const coldP50Ms = percentile(latencies, 0.5);
  latencies.length = 0;
  await runInLanes(count, 1, run);
  return {
    coldP50Ms,
    p50Ms: percentile(latencies, 0.5),
    p95Ms: percentile(latencies, 0.95),
    p99Ms: percentile(latencies, 0.99),
  };
}
