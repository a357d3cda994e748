import { Perdure, task } from 'perdure';
import { check, median, type BenchmarkSetup, type Figures } from '../benchmark.ts';
import { openProvider } from '../store-kind.ts';

const nothing = task('nothing', () => undefined);
const perClaim = 10;
const perRequest = 10_000;

/** The cost of a claim of ten tasks, with a short and a very long queue. */
export async function claimsFromBacklog({ store, quick }: BenchmarkSetup): Promise<Figures> {
  const few = 1_000;
  const many = quick ? 30_000 : 300_000;
  const shallowMs = await claimFrom(store, few);
  const deepMs = await claimFrom(store, many - few);
  return { backlog: many, shallowMs, deepMs, ratio: deepMs / shallowMs };
}

/** Adds `count` tasks and measures the median time of a claim from the head of the queue. */
async function claimFrom(store: string, count: number): Promise<number> {
  await enqueue(store, count);
  const provider = await openProvider(store);
  const claim = { max: perClaim, lockMs: 60_000, waitMs: 0, names: [], tasks: [nothing.name] };
  const times: number[] = [];
  // The first claims warm up the compiler and the query plans.
  for (let done = 0; done < 80; done++) {
    const begun = performance.now();
    const items = await provider.fetchWorkItems(claim);
    if (done >= 30) times.push(performance.now() - begun);
    check(items.length === perClaim, 'a claim');
  }
  await provider.close();
  return median(times);
}

async function enqueue(store: string, count: number): Promise<void> {
  await using perdure = await Perdure.open(store);
  for (let left = count; left > 0; left -= perRequest) {
    const tasks = Array.from({ length: Math.min(left, perRequest) }, () => ({ task: nothing }));
    await perdure.client.runTasks(tasks);
  }
}
