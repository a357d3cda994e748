import {
  check,
  median,
  percentile,
  phases,
  type Benchmark,
  type BenchmarkSetup,
  type Figures,
} from '../benchmark.ts';
import { RawStore } from '../raw-store.ts';

/** The baseline of a hello: one transaction per state change. */
export function rawHello({ store, quick }: BenchmarkSetup): Figures {
  const raw = new RawStore(store);
  const { cold, warmUp, measured } = phases(quick);
  const latencies: number[] = [];
  const runFor = (seconds: number): number => {
    latencies.length = 0;
    const begun = performance.now();
    for (let now = begun; now - begun < seconds * 1_000; now = performance.now()) {
      check(raw.hello('World') === 'Hello, World!', 'raw hello');
      latencies.push(performance.now() - now);
    }
    return (latencies.length * 1_000) / (performance.now() - begun);
  };
  runFor(cold + warmUp);
  const perSecond = runFor(measured);
  raw.close();
  return { perSecond, p50Ms: percentile(latencies, 0.5) };
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

/** The floor of a step: one insert of the same event, one commit, one flush. */
export function rawInserts(count: number): Benchmark {
  return ({ store }) => {
    const raw = new RawStore(store);
    const run = (length: number): number => {
      const begun = performance.now();
      for (let event = 0; event < length; event++) raw.insertEvent();
      return (performance.now() - begun) / length;
    };
    // Fills the write-ahead log once: the growing file makes the first flushes slower.
    run(4_100);
    const msPerStep = run(count);
    raw.close();
    return { msPerStep };
  };
}
