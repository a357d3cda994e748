import { Perdure, task } from 'perdure';
import { check, runInLanes, type BenchmarkSetup, type Figures } from '../benchmark.ts';
import { definitions, hello, steps } from '../definitions.ts';
import { PostgresCost, type Cost } from '../postgres-cost.ts';

/** The cost of a hello (sequential and 64 concurrent) and of a sequential step on PostgreSQL, in one process. */
export async function orchestrationCost({ store, quick }: BenchmarkSetup): Promise<Figures> {
  await using cost = await PostgresCost.open(store);
  await using perdure = await Perdure.open(store);
  await perdure.startWorker(definitions);
  const count = quick ? 1_000 : 5_000;
  const run = async (): Promise<void> => {
    const handle = await perdure.client.start(hello, 'World');
    check((await handle.result()) === 'Hello, World!', 'hello');
  };
  const runSteps = async (): Promise<void> => {
    check((await (await perdure.client.start(steps, count)).result()) === count, 'steps');
  };
  await runInLanes(count, 64, run);
  const together = await cost.measure(count, () => runInLanes(count, 64, run));
  const alone = await cost.measure(count, () => runInLanes(count, 1, run));
  const step = await cost.measure(count, runSteps);
  return { ...named('hello64', together), ...named('hello1', alone), ...named('step', step) };
}

const nothing = task('nothing', () => undefined);

/** The cost of a task on PostgreSQL, enqueued in batches and then run. */
export async function taskCost({ store, quick }: BenchmarkSetup): Promise<Figures> {
  await using cost = await PostgresCost.open(store);
  await using perdure = await Perdure.open(store);
  const count = quick ? 2_000 : 10_000;
  let ended = 0;
  let allEnded: () => void = () => undefined;
  const taskEnded = (): void => {
    ended += 1;
    if (ended % count === 0) allEnded();
  };
  await perdure.startWorker({ tasks: [nothing], hooks: { taskEnded } });
  const run = async (): Promise<void> => {
    const done = new Promise<void>((resolve) => (allEnded = resolve));
    await perdure.client.runTasks(Array.from({ length: count }, () => ({ task: nothing })));
    await done;
  };
  await run();
  return named('task', await cost.measure(count, run));
}

function named(work: string, cost: Cost): Figures {
  return Object.fromEntries(
    Object.entries(cost).map(([name, value]: [string, number]) => [
      `${work}${name.charAt(0).toUpperCase()}${name.slice(1)}`,
      value,
    ]),
  );
}
