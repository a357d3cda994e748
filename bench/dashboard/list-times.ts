import type { Figures } from '../benchmark.ts';
import { median } from '../benchmark.ts';
import { exists, inTab, repeats, scrollFigures, timeLoad, type DashboardBench } from './tab.ts';

const firstRow = exists('.vt-rows .vr a[href*="instances/"]');

/** A2: from the navigation to the first rows of the list, with an empty cache. */
export async function loadTimes(bench: DashboardBench): Promise<Figures> {
  const load = (rate: number): Promise<number> =>
    inTab(bench, async (page) => {
      const session = await page.context().newCDPSession(page);
      await session.send('Emulation.setCPUThrottlingRate', { rate });
      return await timeLoad(page, `${bench.url}instances`, firstRow);
    });
  await load(1);
  const plain: number[] = [];
  const throttled: number[] = [];
  for (let round = 0; round < repeats; round += 1) {
    plain.push(await load(1));
    throttled.push(await load(4));
  }
  return { loadMs: median(plain), throttledLoadMs: median(throttled) };
}

/** A4: rows in the document and the longest frame while 10,000 rows are scrolled. */
export async function listScrolling(bench: DashboardBench): Promise<Figures> {
  const rows = bench.quick ? 1_000 : 10_000;
  const seen = await scrollFigures(bench, `${bench.url}instances`, { rows, ready: firstRow });
  return {
    scrollLongestFrameMs: seen.longestMs,
    scrollMaxRows: seen.rows,
    scrolledRows: seen.lastRow,
  };
}
