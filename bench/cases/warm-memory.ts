import { Perdure } from 'perdure';
import { runInLanes, type BenchmarkSetup, type Figures } from '../benchmark.ts';
import { definitions, waiter } from '../definitions.ts';
import { unsynced } from '../store-kind.ts';

/** The memory of one waiting warm instance. */
export async function warmMemory({ store, quick }: BenchmarkSetup): Promise<Figures> {
  const { gc } = globalThis;
  if (gc === undefined) throw new Error('Run this case with --expose-gc.');
  let waiting = 0;
  let allWait: () => void = () => undefined;
  await using perdure = await Perdure.open(store, unsynced(store));
  await perdure.startWorker({
    ...definitions,
    warmCacheBytes: 2 ** 30,
    hooks: {
      turnCommitted: ({ events }) => {
        // The second turn records the completion and the wait.
        if (events === 2) waiting += 1;
        allWait();
      },
    },
  });
  const fill = async (count: number): Promise<number> => {
    const target = waiting + count;
    const filled = new Promise<void>((resolve) => {
      allWait = () => {
        if (waiting >= target) resolve();
      };
    });
    await runInLanes(count, 64, async () => void (await perdure.client.start(waiter, 'World')));
    await filled;
    await gc({ execution: 'async' });
    return process.memoryUsage().heapUsed;
  };
  const before = await fill(1_000);
  const count = quick ? 2_000 : 10_000;
  const after = await fill(count);
  return { bytesPerInstance: (after - before) / count };
}
