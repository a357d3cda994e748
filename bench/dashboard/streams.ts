import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { median, type Figures } from '../benchmark.ts';
import { hello } from '../definitions.ts';
import { forkProgram } from '../fork-program.ts';
import { waitsForEvent } from './changes.ts';
import { repeats, type DashboardBench } from './tab.ts';

const tabs = 20;
const watched = 100;
const lanes = 64;

/** Opens the streams of so many tabs in another process. */
function openTabs(
  { url }: DashboardBench,
  count: number,
  ids: readonly string[],
): Promise<ChildProcess> {
  return forkProgram('stream-program.ts', [url, String(count), ...ids]);
}

async function closeTabs(child: ChildProcess): Promise<void> {
  child.disconnect();
  await once(child, 'exit');
}

/** Hellos per second. */
async function rate({ client }: DashboardBench, seconds: number): Promise<number> {
  const begun = performance.now();
  let ended = 0;
  const lane = async (): Promise<void> => {
    while (performance.now() - begun < seconds * 1_000) {
      await (await client.start(hello, 'World')).result();
      ended += 1;
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return (ended * 1_000) / (performance.now() - begun);
}

/** Statements per second while one of the watched instances changes ten times a second. */
async function statements(bench: DashboardBench, count: () => number): Promise<number> {
  const begun = performance.now();
  const before = count();
  for (let change = 0; change < 20; change += 1) {
    await bench.client.raiseEvent('watched-0', 'other');
    await pause(100);
  }
  return ((count() - before) * 1_000) / (performance.now() - begun);
}

/**
 * A7: the throughput of a worker with 20 open tabs against none, and the statements with 20 tabs against one. The worker
 * and the server share a process, which is the worst case.
 */
export async function openStreams(bench: DashboardBench, count: () => number): Promise<Figures> {
  const ids = Array.from({ length: watched }, (_, index) => `watched-${index}`);
  for (const id of ids) await bench.client.start(waitsForEvent, undefined, { id });
  const seconds = bench.quick ? 0.5 : 2;
  await rate(bench, seconds * 2);
  const ratios: number[] = [];
  const rates: number[] = [];
  for (let round = 0; round < repeats; round += 1) {
    // The order alternates, so that a drift of the machine does not favour one side.
    const measured = { none: 0, open: 0 };
    for (const side of round % 2 === 0
      ? (['none', 'open'] as const)
      : (['open', 'none'] as const)) {
      const open = side === 'open' ? await openTabs(bench, tabs, ids) : undefined;
      measured[side] = await rate(bench, seconds);
      if (open !== undefined) await closeTabs(open);
    }
    rates.push(measured.none);
    ratios.push(measured.open / measured.none);
  }
  const perSecond: number[] = [];
  for (const open of [1, tabs]) {
    const child = await openTabs(bench, open, ids);
    perSecond.push(await statements(bench, count));
    await closeTabs(child);
  }
  const [ofOne = Number.NaN, ofAll = Number.NaN] = perSecond;
  return {
    endsPerSecond: median(rates),
    rateWith20Tabs: median(ratios),
    statementsWith20Tabs: ofAll / ofOne,
  };
}
