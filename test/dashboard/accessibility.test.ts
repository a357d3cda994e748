import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { seededPages } from './dashboard-pages.ts';
import { describeDashboard } from './open-dashboard.ts';
import { expectAccessible } from './page-checks.ts';
import { seededIds } from './seed/seed-store.ts';

const phone = { width: 375, height: 812 };

interface Overlay {
  readonly name: string;
  readonly path: string;
  readonly viewport?: typeof phone;
  /** Opens it, from a page that has its data. */
  readonly open: (page: Page) => Promise<void>;
  /** Matches what is open. */
  readonly shown: string;
}

const press = async (page: Page, ...keys: readonly string[]): Promise<void> => {
  for (const key of keys) await page.keyboard.press(key);
};

/** What opens above a page or beside it. */
const overlays: readonly Overlay[] = [
  {
    name: 'confirmation of chosen instances',
    path: 'instances',
    open: (page) => press(page, 'j', 'x', 'j', 'x', 'c'),
    shown: 'dialog .btn.danger-fill',
  },
  {
    name: 'confirmation of all that match, with its dry run',
    path: 'instances?status=pending',
    async open(page) {
      await press(page, 'j', 'x');
      await page.getByRole('button', { name: /^Select all/ }).click();
      await press(page, 'c');
    },
    shown: 'dialog .dry',
  },
  {
    name: 'palette',
    path: 'instances',
    async open(page) {
      await press(page, 'Control+k');
      await page.locator('dialog[open]').waitFor();
      await page.keyboard.type('order-48');
    },
    shown: 'dialog .pal-o mark',
  },
  { name: 'list of keys', path: 'instances', open: (page) => press(page, '?'), shown: '.keys' },
  {
    name: 'save view dialog',
    path: 'instances?status=failed',
    open: (page) => page.getByRole('button', { name: 'Save view' }).click(),
    shown: 'dialog input',
  },
  {
    name: 'menu of columns',
    path: 'instances',
    open: (page) => page.getByRole('button', { name: 'Columns' }).click(),
    shown: '[role=menu]',
  },
  {
    name: 'filter suggestions',
    path: 'instances',
    open: (page) => press(page, '/'),
    shown: '[role=option]',
  },
  {
    name: 'start dialog',
    path: 'instances',
    open: (page) => page.getByRole('button', { name: 'Start', exact: true }).click(),
    shown: 'dialog textarea',
  },
  {
    name: 'retry dialog',
    path: `instances/${seededIds.failed}`,
    open: (page) =>
      page
        .getByRole('button', { name: /^Retry/ })
        .first()
        .click(),
    shown: 'dialog form',
  },
  {
    name: 'details of a worker',
    path: 'workers',
    open: (page) => page.getByRole('button', { name: 'worker-eu-7' }).click(),
    shown: '.aside',
  },
  {
    name: 'details of a schedule',
    path: 'schedules',
    open: (page) => page.getByRole('button', { name: 'partner-feed' }).click(),
    shown: '.aside .names',
  },
  {
    name: 'details of a session',
    path: 'sessions',
    open: (page) => page.getByRole('button', { name: 'report screen of ada' }).click(),
    shown: '.aside .waits',
  },
  {
    name: 'shut down dialog',
    path: 'sessions',
    async open(page) {
      await page.getByRole('button', { name: 'report screen of ada' }).click();
      await page.getByRole('button', { name: 'Shut down…' }).click();
    },
    shown: 'dialog form',
  },
  {
    name: 'further pages on a phone',
    path: '',
    viewport: phone,
    open: (page) => page.getByRole('button', { name: 'More', exact: true }).click(),
    shown: 'dialog .sheet-list',
  },
  {
    name: 'bulk bar on a phone',
    path: 'instances',
    viewport: phone,
    open: (page) => press(page, 'j', 'x'),
    shown: '.bulk',
  },
];

/** Waits until a page has its data. */
async function waitForData(page: Page, path: string): Promise<void> {
  const [bare = ''] = path.split('?');
  const text = seededPages.find((one) => one.path === bare)?.text;
  const isList = bare === 'instances';
  if (isList) await page.locator('.vt-rows .vr').first().waitFor();
  else if (text !== undefined) await page.getByText(text).first().waitFor({ state: 'attached' });
}

describeDashboard(
  'accessibility (A11)',
  ({ open }) => {
    test.each(overlays)('$name meets WCAG 2.2 AA in both themes', async (overlay) => {
      const context = overlay.viewport === undefined ? {} : { viewport: overlay.viewport };
      const { page } = await open({ path: overlay.path, context });
      await waitForData(page, overlay.path);
      await overlay.open(page);
      await page.locator(overlay.shown).first().waitFor();
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme });
        await expectAccessible(page);
      }
    });

    test.each(seededPages.filter(({ path }) => !path.startsWith('instances/')))(
      '$name meets WCAG 2.2 AA on a phone, with higher contrast and with forced colours',
      async ({ path }) => {
        const { page, keyboard } = await open({ path, context: { viewport: phone } });
        await waitForData(page, path);
        await expectAccessible(page);
        await page.emulateMedia({ colorScheme: 'dark', contrast: 'more' });
        await expectAccessible(page);
        await page.emulateMedia({ colorScheme: 'dark', forcedColors: 'active' });
        await expectAccessible(page);
        expect(await page.evaluate(chosenWithoutOutline), 'chosen elements').toEqual([]);
        await page.emulateMedia({ colorScheme: 'light', contrast: null, forcedColors: 'none' });
        await page.setViewportSize({ width: 1440, height: 900 });
        // Every element that Tab reaches shows its focus.
        const hidden: string[] = [];
        for (let tabs = 0; tabs < 30; tabs += 1) {
          await keyboard.press('Tab');
          const isShown = await page.evaluate(focusIsShown);
          if (!isShown) hidden.push((await keyboard.focused()).name);
        }
        expect(hidden, 'elements without a visible focus').toEqual([]);
      },
    );

    test('forced colours keep what is chosen, bars and states apart', async () => {
      const { page } = await open({
        path: `instances/${seededIds.retrying}`,
        context: { forcedColors: 'active' },
      });
      await page.locator('.tl-row .bar').first().waitFor();
      // The system replaces colours of text and borders, but not those of bars, which carry the meaning.
      const bars =
        await page.evaluate(`[...document.querySelectorAll('.tl-row .bar')].filter((bar) => {
        const { backgroundColor, backgroundImage, borderTopStyle, boxShadow } = getComputedStyle(bar);
        const isFilled = backgroundImage !== 'none' || backgroundColor !== 'rgba(0, 0, 0, 0)';
        return !isFilled && borderTopStyle === 'none' && boxShadow === 'none';
      }).length`);
      expect(bars, 'bars that cannot be seen').toBe(0);
      await page.getByRole('link', { name: 'Instances' }).first().click();
      await page.locator('.vt-rows .vr').first().waitFor();
      await press(page, 'j', 'x');
      expect(await page.evaluate(chosenWithoutOutline)).toEqual([]);
      const states = await page.locator('.vt-rows .vr .st').allInnerTexts();
      expect(states.every((state) => state.trim() !== '')).toBe(true);
    });

    test('the login meets WCAG 2.2 AA, also with an error', async () => {
      const { page, watch } = await open({ login: true });
      watch.allow(/401/);
      const field = page.getByLabel('Token');
      await field.waitFor();
      await expectAccessible(page);
      await field.fill('wrong');
      await page.keyboard.press('Enter');
      await page.getByRole('alert').waitFor();
      await expectAccessible(page);
    });

    test('the first Tab reaches the skip link, which moves the focus into the page', async () => {
      const { page, keyboard } = await open({ path: 'workers' });
      await waitForData(page, 'workers');
      await keyboard.press('Tab');
      expect(await keyboard.focused()).toMatchObject({ tag: 'a', name: 'Skip to content' });
      await keyboard.press('Enter', 'Tab');
      const isInside = await page.evaluate('document.activeElement.closest("#main") !== null');
      expect(isInside).toBe(true);
    });

    test('Escape closes a dialog and returns the focus to the button that opened it', async () => {
      const { page, keyboard } = await open({ path: 'instances?status=failed' });
      await waitForData(page, 'instances?status=failed');
      await keyboard.tabTo('Save view');
      await keyboard.press('Enter');
      await page.locator('dialog[open]').waitFor();
      expect(await keyboard.focused()).toMatchObject({ tag: 'input', name: 'Name' });
      await keyboard.press('Escape');
      await page.locator('dialog[open]').waitFor({ state: 'detached' });
      await expect.poll(() => keyboard.focused()).toMatchObject({ name: 'Save view' });
    });

    test('Escape closes the details of a worker and returns the focus to its row', async () => {
      const { page, keyboard } = await open({ path: 'workers' });
      await waitForData(page, 'workers');
      await keyboard.tabTo('worker-eu-7');
      await keyboard.press('Enter');
      await page.locator('.aside').waitFor();
      await keyboard.press('Escape');
      await page.locator('.aside').waitFor({ state: 'detached' });
      await expect
        .poll(() => keyboard.focused())
        .toMatchObject({ tag: 'button', name: 'worker-eu-7' });
    });

    test('Escape closes the details of a worker also when it is pressed the moment they appear', async () => {
      const { page, keyboard } = await open({ path: 'workers' });
      await waitForData(page, 'workers');
      await page.evaluate(`
        window.opened = 0;
        new MutationObserver(() => {
          if (document.querySelector('.aside') === null || window.opened > 0) return;
          window.opened = 1;
          document.activeElement.dispatchEvent(
            new KeyboardEvent('keydown', { key: 'Escape', bubbles: true, cancelable: true }),
          );
        }).observe(document.body, { childList: true, subtree: true });
      `);
      await keyboard.tabTo('worker-eu-7');
      await keyboard.press('Enter');
      await expect.poll(() => page.evaluate('window.opened')).toBe(1);
      await page.locator('.aside').waitFor({ state: 'detached' });
    });

    test('the list of keys names those of the page and of the dashboard', async () => {
      const { page, keyboard } = await open({ path: 'instances' });
      await waitForData(page, 'instances');
      await keyboard.press('?');
      const keys = await page.locator('.keys dt').allInnerTexts();
      const texts = keys.map((text) => text.replaceAll(/\s+/g, ' '));
      for (const key of ['j', 'k', 'x', 'Enter', 'c', '?', '/', 'p', 'Esc']) {
        expect(texts).toContain(key);
      }
    });

    test('nothing moves with reduced motion, and a change of the theme has no transition', async () => {
      const { page } = await open({ path: 'settings', context: { reducedMotion: 'reduce' } });
      await page.getByRole('button', { name: 'Dark' }).waitFor();
      const running = await page.evaluate('document.getAnimations().length');
      expect(running).toBe(0);
      await page.emulateMedia({ reducedMotion: 'no-preference' });
      // Transitions are measured in the frame after the click.
      const transitions = await page.evaluate(`new Promise((resolve) => {
        for (const button of document.querySelectorAll('.seg button')) {
          if (button.textContent === 'Dark') button.click();
        }
        requestAnimationFrame(() => resolve(
          document.getAnimations().filter((one) => one instanceof CSSTransition).length,
        ));
      })`);
      expect(transitions).toBe(0);
      expect(await page.evaluate('document.documentElement.dataset.theme')).toBe('dark');
    });
  },
  { seed: true, kinds: ['SQLite'] },
);

/** Whether the focused element, or the field around it, has an outline. Runs in the page. */
const focusIsShown = `(() => {
  const { activeElement: focused } = document;
  if (focused === null || focused === document.body) return true;
  const around = focused.closest('.fbar, .pal-in');
  return [focused, around].some((element) => {
    if (element === null) return false;
    const { outlineStyle, outlineWidth } = getComputedStyle(element);
    return outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2;
  });
})()`;

/** The chosen elements of the page that are neither outlined nor bordered. Runs in the page. */
const chosenWithoutOutline = `[...document.querySelectorAll(
  '.nav a[aria-current], .views a[aria-current], .seg button[aria-pressed="true"], .vr.sel, .rows tr.sel',
)].filter((element) => element.getClientRects().length > 0).filter((element) => {
  const { outlineStyle, borderTopStyle, borderTopWidth } = getComputedStyle(element);
  return outlineStyle === 'none' && (borderTopStyle === 'none' || parseFloat(borderTopWidth) < 1);
}).map((element) => element.outerHTML.slice(0, 120))`;
