/**
 * `npm run screenshots`: writes a screenshot of every page of the dashboard, in both themes, to `docs/screenshots/`, from
 * a seeded store. Some pages are also shown on a phone. `npm run screenshots -- overview tree` writes those pages only,
 * `--to <folder>` writes them elsewhere.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Browser } from 'playwright-core';
import { toPalettePng } from './palette-png.ts';
import { openSqlite } from '../src/sqlite.ts';
import { launchChromium } from '../test/browser/launch-chromium.ts';
import { seededPages, type SeededPage } from '../test/dashboard/dashboard-pages.ts';
import { startDashboard } from '../test/dashboard/dashboard-server.ts';
import { seedStore, type Seed } from '../test/dashboard/seed/seed-store.ts';

// The same times in every run.
const now = Date.UTC(2026, 10, 16, 13, 2, 54);
const sizes = {
  desktop: { width: 1440, height: 900 },
  phone: { width: 375, height: 812 },
} as const;
const phonePages = ['overview', 'instances', 'instance-retrying', 'queues'];
const themes = ['light', 'dark'] as const;

interface Shot {
  readonly page: SeededPage;
  readonly theme: (typeof themes)[number];
  readonly size: keyof typeof sizes;
}

/** Opens a page at the time of the store, and returns its screenshot. */
async function shoot(browser: Browser, url: string, seed: Seed, shot: Shot): Promise<Buffer> {
  const context = await browser.newContext({
    viewport: sizes[shot.size],
    colorScheme: shot.theme,
    reducedMotion: 'reduce',
    timezoneId: 'UTC',
    locale: 'en-US',
  });
  try {
    await context.clock.setFixedTime(seed.clock.now());
    const page = await context.newPage();
    await page.goto(new URL(shot.page.path, url).href);
    await page.getByText(shot.page.text).first().waitFor({ state: 'attached', timeout: 10_000 });
    await page.evaluate('document.fonts.ready.then(() => undefined)');
    // Lists and charts draw a frame after their data.
    await page.waitForTimeout(300);
    return await page.screenshot({ animations: 'disabled', caret: 'hide', scale: 'css' });
  } finally {
    await context.close();
  }
}

const { values, positionals: chosen } = parseArgs({
  options: { to: { type: 'string', default: join(import.meta.dirname, '../docs/screenshots') } },
  allowPositionals: true,
});
const output = values.to;
const pages = seededPages.filter(({ name }) => chosen.length === 0 || chosen.includes(name));
const folder = mkdtempSync(join(tmpdir(), 'perdure-screenshots-'));
const seed = await seedStore(
  (options) => openSqlite({ path: join(folder, 'shop.db'), ...options }),
  {
    now,
  },
);
const { clock } = seed;
clock.stop();
const dashboard = {
  environment: 'production',
  links: [
    { label: 'Trace', href: 'https://traces.example/?id={id}' },
    { label: 'Logs', href: 'https://logs.example/?id={id}' },
  ],
};
const server = await startDashboard(seed.perdure, { port: 0, tokens: [], clock, dashboard });
const browser = await launchChromium();
let failed = 0;
try {
  mkdirSync(output, { recursive: true });
  let bytes = 0;
  for (const page of pages) {
    for (const size of Object.keys(sizes) as (keyof typeof sizes)[]) {
      if (size === 'phone' && !phonePages.includes(page.name)) continue;
      for (const theme of themes) {
        const name = `${page.name}-${theme}${size === 'phone' ? '-375' : ''}.png`;
        try {
          const image = toPalettePng(await shoot(browser, server.url, seed, { page, theme, size }));
          writeFileSync(join(output, name), image);
          bytes += image.length;
        } catch (error) {
          failed += 1;
          console.error(`${name}: ${String(error)}`);
        }
      }
    }
  }
  console.log(`${pages.length} pages, ${Math.round(bytes / 1024)} kB, in ${output}.`);
} finally {
  await browser.close();
  await server.close();
  await seed.close();
  rmSync(folder, { recursive: true, force: true });
}
if (failed > 0) process.exitCode = 1;
