import { Perdure } from 'perdure';
import { serve } from 'perdure/server';
import { launchChromium } from '../../test/browser/launch-chromium.ts';
import type { BenchmarkSetup, Figures } from '../benchmark.ts';
import { bundleSizes } from '../dashboard/bundle-sizes.ts';
import { changeDelays, waitsForEvent } from '../dashboard/changes.ts';
import { flowDefinitions, flowGraphs, runLargeFlows } from '../dashboard/flow-graphs.ts';
import {
  largeDefinitions,
  largePayloads,
  longHistories,
  runLargeInstances,
} from '../dashboard/large-instances.ts';
import { listScrolling, loadTimes } from '../dashboard/list-times.ts';
import { killedWorker, restartedServer } from '../dashboard/outages.ts';
import { openStreams } from '../dashboard/streams.ts';
import type { DashboardBench } from '../dashboard/tab.ts';
import { definitions } from '../definitions.ts';
import { createListedInstances } from '../list-rows.ts';
import { countQueries } from '../query-count.ts';
import { countStatements } from '../statement-count.ts';
import { providerOf } from '../store-kind.ts';
import { measureLists } from './lists.ts';

/** Sizes, load times, frames, delays and outages of the dashboard in Chromium (bounds A1 to A4, A6 to A10, A16, A17). */
export async function dashboardInBrowser(setup: BenchmarkSetup): Promise<Figures> {
  const { store, quick, rows = quick ? 10_000 : 100_000 } = setup;
  const countOf = providerOf(store) === 'sqlite' ? countStatements() : countOfQueries();
  const now = Date.now();
  await createListedInstances(store, rows, now);
  const figures: Record<string, number> = { rows };
  const add = async (what: string, measure: () => Promise<Figures> | Figures): Promise<void> => {
    const begun = performance.now();
    const measured = await measure();
    Object.assign(figures, measured);
    const seconds = ((performance.now() - begun) / 1_000).toFixed(1);
    console.error(`  ${what}, ${seconds} s: ${JSON.stringify(measured)}`);
  };
  await add('filters', async () => {
    const options = { count: rows, now, rounds: quick ? 5 : 20, only: 'first pages' } as const;
    const { slowestP95Ms = Number.NaN, longestLoopDelayMs = Number.NaN } = await measureLists(
      store,
      options,
    );
    return { filterP95Ms: slowestP95Ms, filterLoopDelayMs: longestLoopDelayMs };
  });
  await using perdure = await Perdure.open(store);
  await perdure.startWorker({
    orchestrations: [
      ...definitions.orchestrations,
      ...largeDefinitions.orchestrations,
      waitsForEvent,
    ],
    activities: [...definitions.activities, ...largeDefinitions.activities],
    flows: flowDefinitions,
  });
  await using server = await serve(perdure, { port: 0, dashboard: true });
  const browser = await launchChromium();
  const bench: DashboardBench = {
    browser,
    url: `${server.url}/`,
    perdure,
    client: perdure.client,
    store,
    quick,
  };
  try {
    await add('sizes', bundleSizes);
    await add('loads', () => loadTimes(bench));
    await add('scrolling', () => listScrolling(bench));
    await add('changes', () => changeDelays(bench));
    await add('streams', () => openStreams(bench, countOf));
    // The killed worker needs three heartbeats, in which the instances of the next measurements run.
    await add('killed worker, large instances', async () => {
      const [killed] = await Promise.all([
        killedWorker(bench),
        runLargeInstances(bench),
        runLargeFlows(bench),
      ]);
      return killed;
    });
    await add('histories', () => longHistories(bench));
    await add('payload', () => largePayloads(bench));
    await add('flows', () => flowGraphs(bench));
    await add('restarts', () => restartedServer(bench));
    return figures;
  } finally {
    await browser.close();
  }
}

function countOfQueries(): () => number {
  const count = countQueries();
  return () => count().statements;
}
