import {
  check,
  median,
  percentile,
  type Benchmark,
  type BenchmarkSetup,
  type Figures,
} from '../benchmark.ts';
import { RawStore } from '../raw-store.ts';

/** The baseline of a hello: one transaction per state change. */
export function rawHello({ store, quick }: BenchmarkSetup): Figures {
  const raw = new RawStore(store);
  const count = quick ? 500 : 2_000;
  const latencies: number[] = [];
  const runAll = (): number => {
    latencies.length = 0;
    const begun = performance.now();
    for (let done = 0; done < count; done++) {
      const before = performance.now();
      check(raw.hello('World') === 'Hello, World!', 'raw hello');
      latencies.push(performance.now() - before);
    }
    return (performance.now() - begun) / 1_000;
  };
  runAll();
  const seconds = runAll();
  raw.close();
  return { perSecond: count / seconds, p50Ms: percentile(latencies, 0.5) };
}

/** The baseline of sequential steps: two transactions each. */
export function rawSteps(count: number): Benchmark {
  return ({ store }) => {
    const raw = new RawStore(store);
    raw.steps(1_000);
    const times: number[] = [];
    for (let done = 0; done < 1_000; done += count) {
      const begun = performance.now();
      check(raw.steps(count) === count, 'raw steps');
      times.push((performance.now() - begun) / count);
    }
    raw.close();
    return { msPerStep: median(times) };
  };
}
