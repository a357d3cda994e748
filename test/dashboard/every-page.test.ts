import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { seededPages, type SeededPage } from './dashboard-pages.ts';
import { describeDashboard } from './open-dashboard.ts';
import { expectAccessible, expectNoOverflow } from './page-checks.ts';

/** Opens a page and waits for its data. */
async function openPage(page: Page, url: string, { path, text }: SeededPage): Promise<void> {
  await page.goto(new URL(path, url).href);
  await page.getByText(text).first().waitFor({ state: 'attached', timeout: 10_000 });
}

// The checks of `open` fail a test for a CSP report, a foreign request or a console error.
describeDashboard(
  'every page',
  ({ open }) => {
    test.each(seededPages)('$name fits all widths, below / and /a/b/', async (seeded) => {
      for (const basePath of ['/', '/a/b/']) {
        const { page, url } = await open({ basePath, path: null });
        await openPage(page, url, seeded);
        expect(new URL(page.url()).pathname.startsWith(basePath)).toBe(true);
        if (basePath === '/') await expectNoOverflow(page);
      }
    });
  },
  { seed: true },
);

describeDashboard(
  'accessibility of every page',
  ({ open }) => {
    test.each(seededPages)('$name meets WCAG 2.2 AA in both themes', async (seeded) => {
      for (const colorScheme of ['light', 'dark'] as const) {
        const { page, url } = await open({ path: null, context: { colorScheme } });
        await openPage(page, url, seeded);
        await expectAccessible(page);
      }
    });
  },
  // The markup does not depend on the store.
  { seed: true, kinds: ['SQLite'] },
);
