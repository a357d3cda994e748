import { activity, orchestration } from 'perdure';
import type { Figures } from '../benchmark.ts';
import {
  exists,
  inTab,
  medianOf,
  scrollFigures,
  timeClick,
  timeLoad,
  type DashboardBench,
} from './tab.ts';

const increment = activity('addOne', (_ctx, n: number) => n + 1);

/** Two events per activity, 100 activities at a time. */
const longHistory = orchestration('longHistory', async (ctx, activities: number) => {
  for (let begun = 0; begun < activities; begun += 100) {
    await ctx.all(Array.from({ length: 100 }, (_, n) => ctx.call(increment, n)));
  }
});

/** Returns rows of about 100 bytes. */
const largePayload = orchestration('largePayload', (_ctx, rows: number) =>
  Promise.resolve(Array.from({ length: rows }, (_, row) => ({ row, text: 'x'.repeat(80) }))),
);

export const largeDefinitions = {
  orchestrations: [longHistory, largePayload],
  activities: [increment],
};

const historyId = 'long-history';
const payloadId = 'large-payload';

/** Runs the instances that are shown. */
export async function runLargeInstances({ client, quick }: DashboardBench): Promise<void> {
  const long = await client.start(longHistory, quick ? 1_000 : 25_000, { id: historyId });
  await long.result({ timeout: '5m' });
  await (await client.start(largePayload, 20_000, { id: payloadId })).result();
}

/** A8: first rows of a history of 50,000 events, its whole timeline, and the longest frames while they are scrolled. */
export async function longHistories(bench: DashboardBench): Promise<Figures> {
  const timelineUrl = `${bench.url}instances/${historyId}`;
  const historyUrl = `${timelineUrl}/history`;
  const historyShown = exists('.er:not(.h)');
  const timelineShown = `${exists('.tl-row')} && !document.querySelector('.tl-tools').textContent.includes('reading more')`;
  const timed = (url: string, test: string): Promise<number> =>
    medianOf(() => inTab(bench, (page) => timeLoad(page, url, test)));
  const rows = bench.quick ? 1_000 : 3_000;
  const historyMs = await timed(historyUrl, historyShown);
  const timelineMs = await timed(timelineUrl, timelineShown);
  const history = await scrollFigures(bench, historyUrl, { rows, ready: historyShown });
  const timeline = await scrollFigures(bench, timelineUrl, { rows, ready: timelineShown });
  return {
    historyMs,
    timelineMs,
    historyLongestFrameMs: history.longestMs,
    timelineLongestFrameMs: timeline.longestMs,
  };
}

/** A9: from the click on the tab until a payload of 2 MiB is shown. */
export async function largePayloads(bench: DashboardBench): Promise<Figures> {
  const payloadMs = await medianOf(() =>
    inTab(bench, async (page) => {
      await timeLoad(page, `${bench.url}instances/${payloadId}`, exists('.chip'));
      return await timeClick(page, 'a[href$="/payloads"]', exists('.json-line:nth-child(100)'));
    }),
  );
  return { payloadMs };
}
