import { Perdure } from 'perdure';
import { runInLanes, type BenchmarkSetup, type Figures } from '../benchmark.ts';
import { definitions, hello, waiter } from '../definitions.ts';
import { unsynced } from '../store-kind.ts';

/** The heap of one waiting warm instance, and of a full cache against its limit. */
export async function warmMemory({ store, quick }: BenchmarkSetup): Promise<Figures> {
  const count = quick ? 2_000 : 10_000;
  const instances = await fillCache(store, { warmCacheBytes: 2 ** 30, count });
  // More instances than the cache can hold.
  const warmCacheBytes = (quick ? 8 : 32) * 2 ** 20;
  const full = await fillCache(store, { warmCacheBytes, count: Math.ceil(warmCacheBytes / 3_000) });
  return { bytesPerInstance: instances / count, heapPerLimit: full / warmCacheBytes };
}

/** Starts waiting instances, and returns by how many bytes the heap grows. */
async function fillCache(
  store: string,
  { warmCacheBytes, count }: { readonly warmCacheBytes: number; readonly count: number },
): Promise<number> {
  const filled = Promise.withResolvers<void>();
  let waiting = 0;
  await using perdure = await Perdure.open(store, unsynced(store));
  await perdure.startWorker({
    ...definitions,
    warmCacheBytes,
    hooks: {
      turnCommitted: ({ orchestration, events }) => {
        // The second turn records the completion and the wait.
        if (orchestration !== waiter.name || events !== 2) return;
        waiting += 1;
        if (waiting === count) filled.resolve();
      },
    },
  });
  await runInLanes(1_000, 64, async () => {
    await (await perdure.client.start(hello, 'World')).result();
  });
  const before = await usedHeap();
  await runInLanes(count, 64, async () => void (await perdure.client.start(waiter, 'World')));
  await filled.promise;
  return (await usedHeap()) - before;
}

async function usedHeap(): Promise<number> {
  const { gc } = globalThis;
  if (gc === undefined) throw new Error('Run this case with --expose-gc.');
  await gc({ execution: 'async' });
  return process.memoryUsage().heapUsed;
}
