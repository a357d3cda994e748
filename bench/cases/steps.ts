import { Perdure } from 'perdure';
import { check, median, type Benchmark } from '../benchmark.ts';
import { definitions, steps } from '../definitions.ts';

/** One orchestration with many sequential activities: time per step. */
export function sequentialSteps(count: number): Benchmark {
  return async ({ store }) => {
    await using perdure = await Perdure.open(store);
    await perdure.startWorker(definitions);
    const run = async (length: number): Promise<number> => {
      const begun = performance.now();
      const handle = await perdure.client.start(steps, length);
      check((await handle.result()) === length, 'steps');
      return (performance.now() - begun) / length;
    };
    await run(1_000);
    const times: number[] = [];
    // A short run is noisy, so take the median of several.
    for (let done = 0; done < 1_000; done += count) times.push(await run(count));
    return { msPerStep: median(times) };
  };
}
