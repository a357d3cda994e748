import { median, type Figures } from './benchmark.ts';

interface Pass {
  readonly enqueueSeconds: number;
  readonly runSeconds: number;
}

const passes = 8;
// The JIT compiles most of the hot functions in the first two to four passes.
const warmUpPasses = 4;

/**
 * Rates of `count` tasks, enqueued and then run, in passes of one process: the first pass, and medians of those after the
 * warm-up. `perSecond` counts the time of both.
 */
export async function measurePasses(
  count: number,
  enqueueAndRun: () => Promise<Pass>,
): Promise<Figures> {
  const all: Pass[] = [];
  for (let pass = 0; pass < passes; pass += 1) all.push(await enqueueAndRun());
  const rateOf = (pass: Pass): number => count / (pass.enqueueSeconds + pass.runSeconds);
  const warm = all.slice(warmUpPasses);
  return {
    firstPassPerSecond: rateOf(all[0] as Pass),
    enqueuedPerSecond: median(warm.map(({ enqueueSeconds }) => count / enqueueSeconds)),
    ranPerSecond: median(warm.map(({ runSeconds }) => count / runSeconds)),
    perSecond: median(warm.map(rateOf)),
  };
}
