import { setTimeout as delay } from 'node:timers/promises';
import { Perdure } from 'perdure';
import { check, type BenchmarkSetup, type Figures } from '../benchmark.ts';
import { definitions, hello } from '../definitions.ts';
import { countQueries } from '../query-count.ts';
import { providerOf } from '../store-kind.ts';

/** An idle worker: its share of one core, and its queries to PostgreSQL. */
export async function idleCost({ store, quick }: BenchmarkSetup): Promise<Figures> {
  const sent = countQueries();
  await using perdure = await Perdure.open(store);
  await perdure.startWorker(definitions);
  const handle = await perdure.client.start(hello, 'World');
  check((await handle.result()) === 'Hello, World!', 'hello');
  await delay(1_000);
  const seconds = quick ? 5 : 20;
  const before = process.cpuUsage();
  const { statements } = sent();
  await delay(seconds * 1_000);
  const { user, system } = process.cpuUsage(before);
  return {
    cpuPercent: (user + system) / 1e4 / seconds,
    ...(providerOf(store) === 'postgres' && {
      queriesPerSecond: (sent().statements - statements) / seconds,
    }),
  };
}
