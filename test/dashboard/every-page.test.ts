import type { Page } from 'playwright-core';
import { test } from 'vitest';
import { seededPages, type SeededPage } from './dashboard-pages.ts';
import { describeDashboard } from './open-dashboard.ts';
import { expectAccessible, expectNoOverflow } from './page-checks.ts';

/** Opens a page and waits for its data. */
async function openPage(page: Page, url: string, { path, text }: SeededPage): Promise<void> {
  await page.goto(new URL(path, url).href);
  await page.getByText(text).first().waitFor({ state: 'attached', timeout: 20_000 });
}

// The harness fails a test for a CSP report, a foreign request or a console error.
describeDashboard(
  'every page below /',
  ({ open }) => {
    test.each(seededPages)('$name fits all widths and meets WCAG 2.2 AA', async (seeded) => {
      const { page, url } = await open({ path: null });
      await openPage(page, url, seeded);
      await expectNoOverflow(page);
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme });
        await expectAccessible(page);
      }
    });
  },
  { seed: true, kinds: ['SQLite'] },
);
