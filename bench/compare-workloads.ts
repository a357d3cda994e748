import type * as Package from 'perdure';
import { check, runInLanes } from './benchmark.ts';

/** The costs of one slice of work. */
export interface SliceCosts {
  readonly wallMs: number;
  readonly processCpuMs: number;
  /** CPU time of the connections of the store; absent on SQLite. */
  readonly serverCpuMs?: number;
}

export const workloadNames = [
  'hello',
  'latency',
  'payload',
  'steps',
  'inline-steps',
  'tasks',
] as const;

export type Workload = (typeof workloadNames)[number];

export function isWorkload(name: string): name is Workload {
  return workloadNames.some((known) => known === name);
}

/** Opens a store with one build. Returns the slices of work that it can run, one per workload. */
export async function openBuild(
  { Perdure, activity, orchestration, task }: typeof Package,
  store: string,
): Promise<{ slice(workload: Workload): Promise<void>; close(): Promise<void> }> {
  const greet = activity('greet', (_ctx, name: string) => `Hello, ${name}!`);
  const hello = orchestration('hello', (ctx, name: string) => ctx.call(greet, name));
  const increment = activity('increment', (_ctx, n: number) => n + 1);
  const steps = orchestration('steps', async (ctx, count: number) => {
    let value = 0;
    for (let step = 0; step < count; step++) value = await ctx.call(increment, value);
    return value;
  });
  const inlineSteps = orchestration('inlineSteps', async (ctx, count: number) => {
    let value = 0;
    for (let step = 0; step < count; step++)
      value = await ctx.run('increment', () => Promise.resolve(value + 1));
    return value;
  });
  let ended = 0;
  let allEnded: (() => void) | undefined;
  const nothing = task('nothing', () => undefined);
  const perdure = await Perdure.open(store);
  await perdure.startWorker({
    orchestrations: [hello, steps, inlineSteps],
    activities: [greet, increment],
    tasks: [nothing],
    hooks: {
      taskEnded() {
        ended -= 1;
        if (ended === 0) allEnded?.();
      },
    },
  });
  const { client } = perdure;
  const helloOnce = async (name = 'World'): Promise<void> => {
    const handle = await client.start(hello, name);
    check((await handle.result()) === `Hello, ${name}!`, 'hello');
  };
  const countTo = async (definition: typeof steps, count: number): Promise<void> => {
    const handle = await client.start(definition, count);
    check((await handle.result()) === count, 'steps');
  };
  const large = 'x'.repeat(133_000);
  let hellos = 0;
  const work: Record<Workload, () => Promise<unknown>> = {
    hello: () => runInLanes(2_000, 64, () => helloOnce()),
    latency: () => runInLanes(300, 1, () => helloOnce()),
    payload: () => runInLanes(64, 16, () => helloOnce(`${(hellos += 1)}${large}`)),
    steps: () => countTo(steps, 1_000),
    'inline-steps': () => countTo(inlineSteps, 1_000),
    async tasks() {
      const { promise, resolve } = Promise.withResolvers<void>();
      ended = 4_000;
      allEnded = resolve;
      await client.runTasks(Array.from({ length: ended }, () => ({ task: nothing })));
      await promise;
    },
  };
  return {
    async slice(workload) {
      await work[workload]();
    },
    async close() {
      await perdure.close();
    },
  };
}
