import { activity, orchestration, Perdure } from 'perdure';
import { flow } from 'perdure/flows';
import { check, median, type BenchmarkSetup, type Figures } from '../benchmark.ts';

const chainLength = 20;

const increment = activity('increment', (_ctx, n: number) => n + 1);

/** The same chain without a flow, as baseline. */
const plainChain = orchestration('plainChain', async (ctx) => {
  let value = 0;
  for (let step = 0; step < chainLength; step += 1) value = await ctx.call(increment, value);
  return value;
});

/** Sequential steps: each adds one to the output of the previous one. */
function chain(length: number) {
  // The step names of a chain of any length are unknown to the types.
  let builder = flow('chain').step('s0', () => 1) as unknown as LooseBuilder;
  for (let step = 1; step < length; step += 1) {
    const before = `s${step - 1}`;
    builder = builder.step(
      `s${step}`,
      { needs: [before] },
      (_ctx, given) => (given[before] ?? 0) + 1,
    );
  }
  return builder.output();
}

interface LooseBuilder {
  step(
    name: string,
    options: { readonly needs: readonly string[] },
    handler: (ctx: unknown, given: Readonly<Record<string, number>>) => number,
  ): LooseBuilder;
  output(): ReturnType<ReturnType<typeof flow>['output']>;
}

const wide = flow('wide')
  .input<number>()
  .step('list', (_ctx, { input }) => Array.from({ length: input }, (_, index) => index))
  .map('each', { over: ({ list }) => list }, (_ctx, n) => n + 1)
  .reduce('sum', { over: ({ each }) => each, initial: 0 }, (_ctx, sum, n) => sum + n)
  .output();

/** A chain of steps as a flow and as an orchestration, alternating: the overhead per step. */
export async function flowOverhead({ store, quick }: BenchmarkSetup): Promise<Figures> {
  await using perdure = await Perdure.open(store);
  const { client } = perdure;
  const chained = chain(chainLength);
  await perdure.startWorker({
    flows: [chained],
    orchestrations: [plainChain],
    activities: [increment],
  });
  const flows: number[] = [];
  const plain: number[] = [];
  for (let run = 0; run < (quick ? 20 : 100); run += 1) {
    let begun = performance.now();
    check((await (await client.runFlow(chained)).result()) === chainLength, 'flow');
    flows.push((performance.now() - begun) / chainLength);
    begun = performance.now();
    check((await (await client.start(plainChain)).result()) === chainLength, 'orchestration');
    plain.push((performance.now() - begun) / chainLength);
  }
  return {
    flowMsPerStep: median(flows),
    plainMsPerStep: median(plain),
    ratio: median(flows) / median(plain),
  };
}

/** A map with a fold over 10,000 items, and over 1,000: the time per item must not grow. */
export async function flowMap({ store, quick }: BenchmarkSetup): Promise<Figures> {
  await using perdure = await Perdure.open(store);
  await perdure.startWorker({ flows: [wide] });
  const run = async (count: number): Promise<number> => {
    const begun = performance.now();
    const handle = await perdure.client.runFlow(wide, count);
    check((await handle.result()) === (count * (count + 1)) / 2, 'map');
    return performance.now() - begun;
  };
  await run(1_000);
  const small: number[] = [];
  const large: number[] = [];
  for (let round = 0; round < (quick ? 1 : 3); round += 1) {
    small.push(await run(1_000));
    large.push(await run(10_000));
  }
  return {
    ms10000: median(large),
    itemsPerSecond: 10_000_000 / median(large),
    msPerItem1000: median(small) / 1_000,
    msPerItem10000: median(large) / 10_000,
  };
}
