import { setTimeout as pause } from 'node:timers/promises';
import type { Client, Perdure } from 'perdure';
import type { Browser, Page } from 'playwright-core';
import { median } from '../benchmark.ts';

/** Measurements per figure; the figure is their median. */
export const repeats = 5;

/** What the measurements of the dashboard share. */
export interface DashboardBench {
  readonly browser: Browser;
  /** The address of the dashboard, with a slash at its end. */
  readonly url: string;
  readonly perdure: Perdure;
  readonly client: Client;
  readonly store: string;
  readonly quick: boolean;
}

/** Returns the median of several measurements. */
export async function medianOf(measure: (round: number) => Promise<number>): Promise<number> {
  const values: number[] = [];
  for (let round = 0; round < repeats; round += 1) values.push(await measure(round));
  return median(values);
}

/** Runs a measurement in a tab with an empty cache. */
export async function inTab<Result>(
  { browser }: Pick<DashboardBench, 'browser'>,
  run: (page: Page) => Promise<Result>,
): Promise<Result> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  try {
    context.setDefaultTimeout(60_000);
    return await run(await context.newPage());
  } finally {
    await context.close();
  }
}

/** The text of a function in the page: resolves at the frame after `test` is true, with the time of the page. */
export const untilPainted = (test: string): string =>
  `new Promise((resolve) => {
    const look = () => (${test}) ? requestAnimationFrame(() => resolve(performance.now())) : requestAnimationFrame(look);
    look();
  })`;

/** A condition of the page: an element of this selector exists. */
export const exists = (selector: string): string =>
  `document.querySelector(${JSON.stringify(selector)}) !== null`;

/** Loads a page. Returns the milliseconds from the navigation until the condition is true. */
export async function timeLoad(page: Page, url: string, test: string): Promise<number> {
  await page.goto(url, { waitUntil: 'commit' });
  return await page.evaluate<number>(untilPainted(test));
}

/** Clicks an element of the page. Returns the milliseconds until the condition is true. */
export async function timeClick(page: Page, selector: string, test: string): Promise<number> {
  return await page.evaluate<number>(`(async () => {
    const begun = performance.now();
    document.querySelector(${JSON.stringify(selector)}).click();
    return (await ${untilPainted(test)}) - begun;
  })()`);
}

/** The longest frame and the most rows in the document during a scroll. */
export interface Scrolled {
  readonly longestMs: number;
  readonly rows: number;
  /** The row at which it ended. */
  readonly lastRow: number;
}

/** Scrolls the list of a page with the wheel over so many rows, and waits for those that are read meanwhile. */
export async function scrollThrough(page: Page, rows: number): Promise<Scrolled> {
  await page.evaluate(`(() => {
    const seen = (globalThis.scrollSeen = { longestMs: 0, rows: 0, last: 0, ended: false });
    const frame = (now) => {
      if (seen.last > 0) seen.longestMs = Math.max(seen.longestMs, now - seen.last);
      seen.last = now;
      seen.rows = Math.max(seen.rows, document.querySelectorAll('[role="row"]').length);
      if (!seen.ended) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  })()`);
  await page.mouse.move(800, 600);
  let lastRow = 0;
  const endAt = performance.now() + 20_000;
  while (lastRow < rows && performance.now() < endAt) {
    await page.mouse.wheel(0, 3_600);
    await pause(10);
    lastRow = await page.evaluate<number>(
      `Math.max(0, ...[...document.querySelectorAll('[role="row"]')].map((row) => Number(row.getAttribute('aria-rowindex'))))`,
    );
  }
  const seen = await page.evaluate<Omit<Scrolled, 'lastRow'>>(
    `(() => { scrollSeen.ended = true; return { longestMs: scrollSeen.longestMs, rows: scrollSeen.rows }; })()`,
  );
  return { ...seen, lastRow };
}

/** The median of the longest frames, and the most rows, over several scrolls of a list. */
export async function scrollFigures(
  bench: DashboardBench,
  url: string,
  { rows, ready }: { readonly rows: number; readonly ready: string },
): Promise<Scrolled> {
  const all: Scrolled[] = [];
  for (let round = 0; round < repeats; round += 1) {
    all.push(
      await inTab(bench, async (page) => {
        await timeLoad(page, url, ready);
        // The load has its own bound.
        await pause(500);
        return await scrollThrough(page, rows);
      }),
    );
  }
  return {
    longestMs: median(all.map(({ longestMs }) => longestMs)),
    rows: Math.max(...all.map((one) => one.rows)),
    lastRow: Math.min(...all.map((one) => one.lastRow)),
  };
}
