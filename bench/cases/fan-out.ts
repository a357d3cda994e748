import { Perdure } from 'perdure';
import { check, runInLanes, type BenchmarkSetup, type Figures } from '../benchmark.ts';
import { definitions, fanOut } from '../definitions.ts';

/** Instances of five parallel activities of 10 ms, 20 instances concurrently. */
export async function fanOutThroughput({ store, quick }: BenchmarkSetup): Promise<Figures> {
  await using perdure = await Perdure.open(store);
  await perdure.startWorker(definitions);
  const run = async (): Promise<void> => {
    const handle = await perdure.client.start(fanOut);
    check((await handle.result()) === 10, 'fan-out');
  };
  const count = quick ? 200 : 1_000;
  await runInLanes(count, 20, run);
  const seconds = await runInLanes(count, 20, run);
  return { perSecond: count / seconds };
}
