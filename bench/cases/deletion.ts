import { setImmediate as nextTurn } from 'node:timers/promises';
import { Perdure, type Client } from 'perdure';
import { check, percentile, type BenchmarkSetup, type Figures } from '../benchmark.ts';
import { definitions, family, hello, steps } from '../definitions.ts';
import { createFinishedInstances } from '../finished-instances.ts';
import { openInstanceCounter } from '../instance-counter.ts';

const lanes = 8;
const aloneMs = 3_000;

/** Latency of hellos, 8 concurrent: alone, and during a deletion of old runs. */
export async function deletionUnderLoad({ store, quick }: BenchmarkSetup): Promise<Figures> {
  const count = quick ? 2_000 : 20_000;
  // Four activities make ten events.
  await createFinishedInstances(store, count, async (client) =>
    (await client.start(steps, 4)).result(),
  );
  await using perdure = await Perdure.open(store);
  await perdure.startWorker(definitions);
  const { client } = perdure;
  const completedBefore = Date.now();
  await underLoad(client, () => pause(1_000));
  const alone = await underLoad(client, () => pause(aloneMs));
  const begun = performance.now();
  const beside = await underLoad(client, async () => {
    const deleted = await client.deleteInstanceBulk({ completedBefore, limit: count });
    check(deleted.instancesDeleted === count, 'instances deleted');
    check(deleted.eventsDeleted === count * 10, 'events deleted');
  });
  const seconds = (performance.now() - begun) / 1_000;
  return {
    perSecond: count / seconds,
    aloneP50Ms: percentile(alone, 0.5),
    aloneP99Ms: percentile(alone, 0.99),
    besideP50Ms: percentile(beside, 0.5),
    besideP99Ms: percentile(beside, 0.99),
  };
}

/** The latencies of hellos that run until the work is done. */
async function underLoad(client: Client, work: () => Promise<void>): Promise<readonly number[]> {
  const latencies: number[] = [];
  const over = new AbortController();
  const lane = async (): Promise<void> => {
    while (!over.signal.aborted) {
      const begun = performance.now();
      const handle = await client.start(hello, 'World');
      check((await handle.result()) === 'Hello, World!', 'hello');
      latencies.push(performance.now() - begun);
    }
  };
  const load = Array.from({ length: lanes }, lane);
  await work();
  over.abort();
  await Promise.all(load);
  return latencies;
}

/** Deletes one tree of 2,001 instances while another connection counts the visible ones. */
export async function deleteFamily({ store, quick }: BenchmarkSetup): Promise<Figures> {
  const children = quick ? 200 : 2_000;
  await using perdure = await Perdure.open(store);
  await perdure.startWorker(definitions);
  const { client } = perdure;
  const root = await client.start(family, children);
  check((await root.result()) === children, 'children');
  const reader = await openInstanceCounter(store);
  const seen = new Set<number>();
  const over = new AbortController();
  const watch = async (): Promise<void> => {
    while (!over.signal.aborted) {
      seen.add(await reader.count());
      await nextTurn();
    }
  };
  const watching = watch();
  const begun = performance.now();
  const deleted = await client.deleteInstance(root.id);
  const deletedMs = performance.now() - begun;
  over.abort();
  await watching;
  check(deleted.instancesDeleted === children + 1, 'instances deleted');
  check((await reader.count()) === 0, 'instances left');
  await reader.close();
  seen.delete(0);
  seen.delete(children + 1);
  return { deletedMs, statesBetween: seen.size };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
