import { Perdure, type Handle } from 'perdure';
import { check, percentile, runInLanes, type BenchmarkSetup, type Figures } from '../benchmark.ts';
import { definitions, sleeper } from '../definitions.ts';

/** Many one-second timers: the delay of the end of their instances, including the commit. */
export async function timerLateness({ store, quick }: BenchmarkSetup): Promise<Figures> {
  await using perdure = await Perdure.open(store);
  const endedAt = new Map<string, number>();
  await perdure.startWorker({
    ...definitions,
    hooks: {
      turnCommitted: ({ instanceId, status }) => {
        if (status === 'completed') endedAt.set(instanceId, Date.now());
      },
    },
  });
  const count = quick ? 500 : 2_000;
  const sleepAll = async (ms: number): Promise<readonly string[]> => {
    const handles: Handle<void>[] = [];
    await runInLanes(count, 64, async () => {
      handles.push(await perdure.client.start(sleeper, ms));
    });
    await Promise.all(handles.map((handle) => handle.result()));
    return handles.map(({ id }) => id);
  };
  await sleepAll(10);
  const ids = await sleepAll(1_000);
  const lateness: number[] = [];
  for (const id of ids) {
    const { events } = await perdure.client.exportHistory(id);
    const timer = events.find((event) => event.kind === 'timerCreated');
    if (timer?.kind !== 'timerCreated') throw new Error('An instance has no timer.');
    lateness.push((endedAt.get(id) ?? Infinity) - timer.fireAt);
  }
  check(Math.min(...lateness) >= 0, 'a timer came early');
  return { lateP50Ms: percentile(lateness, 0.5), lateP99Ms: percentile(lateness, 0.99) };
}
