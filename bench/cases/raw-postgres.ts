import {
  check,
  measureRate,
  median,
  percentile,
  runInLanes,
  type Benchmark,
  type BenchmarkSetup,
  type Figures,
} from '../benchmark.ts';
import { rawConnections, RawPostgresStore } from '../raw-postgres-store.ts';

/** The baseline of a hello on PostgreSQL: one round trip per state change, over 16 connections; then one at a time. */
export async function rawPostgresHello({ store, quick }: BenchmarkSetup): Promise<Figures> {
  const stores = await RawPostgresStore.open(store, rawConnections);
  const free = [...stores];
  const run = async (): Promise<void> => {
    const raw = free.pop();
    if (raw === undefined) throw new Error('More lanes than connections.');
    check((await raw.hello('World')) === 'Hello, World!', 'raw hello');
    free.push(raw);
  };
  const { perSecond } = await measureRate(quick, rawConnections, run);
  const latencies: number[] = [];
  await runInLanes(quick ? 100 : 500, 1, async () => {
    const begun = performance.now();
    await run();
    latencies.push(performance.now() - begun);
  });
  for (const raw of stores) await raw.close();
  return { perSecond, p50Ms: percentile(latencies, 0.5) };
}

/** The baseline of sequential steps on PostgreSQL: two round trips each. */
export function rawPostgresSteps(count: number): Benchmark {
  return async ({ store }) => {
    const [raw] = await RawPostgresStore.open(store, 1);
    if (raw === undefined) throw new Error('No connection was opened.');
    await raw.steps(500);
    const times: number[] = [];
    for (let done = 0; done < 1_000; done += count) {
      const begun = performance.now();
      check((await raw.steps(count)) === count, 'raw steps');
      times.push((performance.now() - begun) / count);
    }
    await raw.close();
    return { msPerStep: median(times) };
  };
}
