import { flow } from 'perdure/flows';
import type { Figures } from '../benchmark.ts';
import { exists, inTab, medianOf, timeClick, timeLoad, type DashboardBench } from './tab.ts';

const width = 10;
const stepCount = 300;

interface LooseBuilder {
  step(
    name: string,
    options: { readonly needs: readonly string[] },
    handler: () => number,
  ): LooseBuilder;
  output(): ReturnType<ReturnType<typeof flow>['output']>;
}

/** Layers of ten steps; each step needs two of the layer before. */
function layered() {
  // The step names are unknown to the types.
  let builder = flow('layered') as unknown as LooseBuilder;
  for (let step = 0; step < stepCount; step += 1) {
    const above = Math.floor(step / width) * width - width;
    const needs =
      above < 0 ? [] : [`s${above + (step % width)}`, `s${above + ((step * 3 + 1) % width)}`];
    builder = builder.step(`s${step}`, { needs: [...new Set(needs)] }, () => step);
  }
  return builder.output();
}

const manySteps = layered();
const manyItems = flow('manyItems')
  .input<number>()
  .step('list', (_ctx, { input }) => Array.from({ length: input }, (_, index) => index))
  .map('each', { over: ({ list }) => list }, (_ctx, n) => n)
  .output();

export const flowDefinitions = [manySteps, manyItems];

const stepsId = 'many-steps';
const itemsId = 'many-items';

/** Runs the flows that are shown. */
export async function runLargeFlows({ client, quick }: DashboardBench): Promise<void> {
  await (await client.runFlow(manySteps, undefined, { id: stepsId })).result({ timeout: '5m' });
  const items = await client.runFlow(manyItems, quick ? 2_000 : 100_000, { id: itemsId });
  await items.result({ timeout: '5m' });
}

/** A10: the graph of 300 steps from the click on its tab, and the counts and items of a map of 100,000. */
export async function flowGraphs(bench: DashboardBench): Promise<Figures> {
  const flowTab = 'nav a[href$="/many-steps"]';
  const graphMs = await medianOf(() =>
    inTab(bench, async (page) => {
      await timeLoad(page, `${bench.url}instances/${stepsId}/state`, exists(flowTab));
      return await timeClick(page, flowTab, exists(`.nd:nth-of-type(${stepCount})`));
    }),
  );
  // Once: it takes seconds and has no bound.
  const itemsMs = await inTab(bench, (page) =>
    timeLoad(page, `${bench.url}instances/${itemsId}?step=each`, exists('.items tbody tr')),
  );
  return { graphMs, itemsMs };
}
