import { Perdure } from 'perdure';
import { check, measureRate, median, type Benchmark } from '../benchmark.ts';
import { definitions, inlineSteps, steps } from '../definitions.ts';

/** One orchestration with many sequential activities or steps: time per step. */
export function sequentialSteps(count: number, definition = steps): Benchmark {
  return async ({ store }) => {
    await using perdure = await Perdure.open(store);
    await perdure.startWorker(definitions);
    const run = async (length: number): Promise<number> => {
      const begun = performance.now();
      const handle = await perdure.client.start(definition, length);
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

/** One orchestration with many sequential steps of `ctx.run()`: time per step. */
export function sequentialInlineSteps(count: number): Benchmark {
  return sequentialSteps(count, inlineSteps);
}

const stepsPerRun = 100;

/** 64 orchestrations of 100 steps each: steps per second. */
export const inlineStepRate: Benchmark = async ({ store, quick }) => {
  await using perdure = await Perdure.open(store);
  await perdure.startWorker(definitions);
  const { perSecond } = await measureRate(quick, 64, async () => {
    const handle = await perdure.client.start(inlineSteps, stepsPerRun);
    check((await handle.result()) === stepsPerRun, 'steps');
  });
  return { perSecond: perSecond * stepsPerRun };
};
