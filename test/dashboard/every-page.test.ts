import type { Page } from 'playwright-core';
import { test } from 'vitest';
import { seededPages, type SeededPage } from './dashboard-pages.ts';
import { describeDashboard } from './open-dashboard.ts';
import { expectAccessible, expectNoOverflow } from './page-checks.ts';

// A few pages share a browser context, which takes as long to open as a page.
const groups = Array.from({ length: Math.ceil(seededPages.length / 4) }, (_, index) => {
  const pages = seededPages.slice(index * 4, index * 4 + 4);
  return { pages, names: pages.map(({ name }) => name).join(', ') };
});

/** Opens a page and waits for its data. */
async function openPage(page: Page, url: string, { path, text }: SeededPage): Promise<void> {
  await page.goto(new URL(path, url).href);
  await page.getByText(text).first().waitFor({ state: 'attached', timeout: 20_000 });
}

// The harness fails a test for a CSP report, a foreign request or a console error.
describeDashboard(
  'every page below /',
  ({ open }) => {
    test.each(groups)('$names fit all widths and meet WCAG 2.2 AA', async ({ pages }) => {
      const { page, url } = await open({ path: null });
      for (const seeded of pages) {
        await openPage(page, url, seeded);
        await expectNoOverflow(page);
        for (const colorScheme of ['dark', 'light'] as const) {
          await page.emulateMedia({ colorScheme });
          await expectAccessible(page);
        }
      }
    });
  },
  { seed: true, kinds: ['SQLite'] },
);
