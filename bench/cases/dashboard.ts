import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { Perdure, orchestration, type Client } from 'perdure';
import { serve } from 'perdure/server';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { launchChromium } from '../../test/browser/launch-chromium.ts';
import { median, percentile, type BenchmarkSetup, type Figures } from '../benchmark.ts';
import { definitions, steps } from '../definitions.ts';
import { createFinishedInstances } from '../finished-instances.ts';
import { runProgram } from '../run-program.ts';

const rounds = 5;
const staticFolder = join(import.meta.dirname, '../../dist/dashboard/static');

const waitsForEvent = orchestration('waitsForEvent', async (ctx) => {
  await ctx.waitFor('go');
});

/** Returns rows of about 100 bytes. */
const largePayload = orchestration('largePayload', (_ctx, rows: number) =>
  Promise.resolve(Array.from({ length: rows }, (_, row) => ({ row, text: 'x'.repeat(80) }))),
);

/** Sizes, load times, frames while scrolling and the delay of changes, in Chromium (bounds A1, A2, A4, A6, A8, A9). */
export async function dashboardInBrowser({ store, quick }: BenchmarkSetup): Promise<Figures> {
  await createFinishedInstances(store, quick ? 2_000 : 10_000);
  await using perdure = await Perdure.open(store);
  await perdure.startWorker({
    ...definitions,
    orchestrations: [...definitions.orchestrations, waitsForEvent, largePayload],
  });
  await using server = await serve(perdure, { port: 0, dashboard: true });
  const browser = await launchChromium();
  try {
    const measure = {
      browser,
      url: new URL('/', server.url).href,
      client: perdure.client,
      store,
      quick,
    };
    return {
      ...bundleSizes(),
      ...(await loadTimes(measure)),
      ...(await scrolling(measure)),
      ...(await changes(measure)),
      ...(await longHistory(measure)),
      ...(await payload(measure)),
    };
  } finally {
    await browser.close();
  }
}

interface Measure {
  readonly browser: Browser;
  readonly url: string;
  readonly client: Client;
  readonly store: string;
  readonly quick: boolean;
}

interface ManifestEntry {
  readonly file: string;
  readonly isEntry?: boolean;
  readonly css?: readonly string[];
  readonly imports?: readonly string[];
}

/** A1: gzip sizes of JavaScript and CSS, of the first load of the list and in all. */
function bundleSizes(): Figures {
  const text = readFileSync(join(staticFolder, 'manifest.json'), 'utf8');
  const manifest = JSON.parse(text) as Readonly<Record<string, ManifestEntry>>;
  const first = new Set<string>();
  const visit = (key: string): void => {
    const entry = manifest[key];
    if (entry === undefined || first.has(entry.file)) return;
    for (const file of [entry.file, ...(entry.css ?? [])]) first.add(file);
    for (const imported of entry.imports ?? []) visit(imported);
  };
  for (const [key, { isEntry = false }] of Object.entries(manifest)) if (isEntry) visit(key);
  visit('pages/instances/instances.tsx');
  const all = new Set(Object.values(manifest).flatMap(({ file, css = [] }) => [file, ...css]));
  const kB = (files: ReadonlySet<string>): number => {
    const code = [...files].filter((file) => /\.(?:js|css)$/.test(file));
    const sizes = code.map((file) => gzipSync(readFileSync(join(staticFolder, file))).length);
    return sizes.reduce((sum, size) => sum + size, 0) / 1_000;
  };
  return { firstLoadKB: kB(first), allChunksKB: kB(all) };
}

const firstRow = '[role="row"] a[href*="/instances/"], a[href*="instances/"]';

/** A2: from navigation to the first rows of the list, with an empty cache. */
async function loadTimes({ browser, url }: Measure): Promise<Figures> {
  const load = async (throttle: number): Promise<number> => {
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
    const page = await context.newPage();
    const session = await context.newCDPSession(page);
    await session.send('Emulation.setCPUThrottlingRate', { rate: throttle });
    const begun = performance.now();
    await page.goto(new URL('instances', url).href, { waitUntil: 'commit' });
    await page.locator(firstRow).first().waitFor();
    const ms = performance.now() - begun;
    await context.close();
    return ms;
  };
  await load(1);
  const times = { loadMs: [] as number[], throttledLoadMs: [] as number[] };
  for (let round = 0; round < rounds; round += 1) {
    times.loadMs.push(await load(1));
    times.throttledLoadMs.push(await load(4));
  }
  return { loadMs: median(times.loadMs), throttledLoadMs: median(times.throttledLoadMs) };
}

/** A4: rows in the DOM and the longest frame while 10,000 rows are scrolled. */
async function scrolling({ browser, url, quick }: Measure): Promise<Figures> {
  const { page, context } = await openAt(browser, new URL('instances', url).href);
  await page.locator(firstRow).first().waitFor();
  const { longest, rows } = await scrollThrough(page, quick ? 20 : 100);
  await context.close();
  return { scrollLongestFrameMs: longest, scrollMaxRows: rows };
}

/** A6: from the call that changes an instance until the list shows it, with the change in this and another process. */
async function changes({ browser, url, client, store, quick }: Measure): Promise<Figures> {
  const count = quick ? 5 : 20;
  const measure = async (id: string, end: () => Promise<unknown>): Promise<number> => {
    await client.start(waitsForEvent, undefined, { id });
    const { page, context } = await openAt(browser, new URL(`instances/${id}`, url).href);
    await page.getByText('Running').first().waitFor();
    const begun = performance.now();
    const shown = page
      .getByText('Completed')
      .first()
      .waitFor()
      .then(() => performance.now() - begun);
    const [ms] = await Promise.all([shown, end()]);
    await context.close();
    return ms;
  };
  const same: number[] = [];
  const other: number[] = [];
  for (let round = 0; round < count; round += 1) {
    const [here, there] = [`here-${round}`, `there-${round}`];
    same.push(await measure(here, () => client.raiseEvent(here, 'go')));
    const program = join(import.meta.dirname, '../dashboard-event-program.ts');
    let startMs = 0;
    const ms = await measure(there, async () => {
      const begun = Date.now();
      const { at } = await runProgram('The event', [program, store, there]);
      startMs = (at ?? begun) - begun;
    });
    // Without the start of the other process.
    other.push(ms - startMs);
  }
  return { sameProcessP95Ms: percentile(same, 0.95), otherProcessP95Ms: percentile(other, 0.95) };
}

/** A8: first rows of a long history, its timeline, and the longest frame while it is scrolled. */
async function longHistory({ browser, url, client, quick }: Measure): Promise<Figures> {
  const id = 'long-history';
  // Two events per step.
  const handle = await client.start(steps, quick ? 1_000 : 25_000, { id });
  await handle.result({ timeout: '10m' });
  const timed = async (tab: string, selector: string): Promise<number> => {
    const begun = performance.now();
    const { page, context } = await openAt(browser, new URL(`instances/${id}${tab}`, url).href);
    await page.locator(selector).first().waitFor();
    const ms = performance.now() - begun;
    await context.close();
    return ms;
  };
  const historyMs = await timed('/history', 'text=activityScheduled');
  const timelineMs = await timed('', '.tl-row');
  const { page, context } = await openAt(browser, new URL(`instances/${id}/history`, url).href);
  await page.locator('text=activityScheduled').first().waitFor();
  const { longest } = await scrollThrough(page, quick ? 20 : 100);
  await context.close();
  return { historyMs, timelineMs, historyLongestFrameMs: longest };
}

/** A9: from the click on the tab until a payload of 2 MiB is shown. */
async function payload({ browser, url, client }: Measure): Promise<Figures> {
  const id = 'large-payload';
  const handle = await client.start(largePayload, 20_000, { id });
  await handle.result();
  const { page, context } = await openAt(browser, new URL(`instances/${id}`, url).href);
  await page.getByText('Completed').first().waitFor();
  const begun = performance.now();
  await page.getByRole('link', { name: 'Payloads' }).click();
  await page.getByText('xxxxxxxx').first().waitFor();
  const payloadMs = performance.now() - begun;
  await context.close();
  return { payloadMs };
}

async function openAt(
  browser: Browser,
  url: string,
): Promise<{ readonly page: Page; readonly context: BrowserContext }> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  const page = await context.newPage();
  await page.goto(url);
  return { page, context };
}

/** Scrolls with the wheel, and measures the longest frame and the most rows in the DOM. */
async function scrollThrough(
  page: Page,
  steps: number,
): Promise<{ readonly longest: number; readonly rows: number }> {
  // The source is a text, because it runs in the browser, whose types this folder does not have.
  await page.evaluate(`(() => {
    const seen = (globalThis.scrollSeen = { longest: 0, rows: 0, last: performance.now(), ended: false });
    const frame = (now) => {
      seen.longest = Math.max(seen.longest, now - seen.last);
      seen.last = now;
      seen.rows = Math.max(seen.rows, document.querySelectorAll('[role="row"]').length);
      if (!seen.ended) requestAnimationFrame(frame);
    };
    requestAnimationFrame((now) => { seen.last = now; requestAnimationFrame(frame); });
  })()`);
  await page.mouse.move(800, 500);
  for (let step = 0; step < steps; step += 1) {
    await page.mouse.wheel(0, 3_600);
    await pause(30);
  }
  return await page.evaluate<{ longest: number; rows: number }>(
    `(() => { scrollSeen.ended = true; return { longest: scrollSeen.longest, rows: scrollSeen.rows }; })()`,
  );
}
