import { expect, test } from 'vitest';
import { orchestration, task, type Perdure } from '../../src/index.ts';
import { describeDashboard } from './open-dashboard.ts';
import { expectNoOverflow } from './page-checks.ts';

// Words without a place to break, markup, and a character that reverses the direction of writing.
const long = `veryLongNameWithoutAnySpace${'X'.repeat(150)}`;
const hostile = `<b>bold</b>\u202E${'reversed'.repeat(12)}`;

const failing = orchestration(long, async (_ctx, _input: null) => {
  throw new Error(`${hostile} ${'y'.repeat(800)}`);
});
const waiting = task(`${long}Task`, async (_ctx, _input: null) => 1);

/** Fills a store with names that are hard to lay out. */
async function addHostileNames({ client }: Perdure): Promise<void> {
  for (const id of [`${long}-1`, hostile, '..']) await client.start(failing, null, { id });
  await client.runTask(waiting, null, {
    id: `${long}-task`,
    tags: { [long.slice(0, 60)]: hostile },
  });
  await client.schedules.put(long.slice(0, 120), { task: waiting, input: null, every: '1h' });
  await client.openSession({ label: long.slice(0, 100) });
  await client.wait(`${long}-1`);
}

/** Every page, with a text that it shows when its data was read. */
const pages: readonly (readonly [path: string, text: string | RegExp])[] = [
  ['', 'failed in the last hour'],
  ['instances', long.slice(0, 100)],
  [`instances/${encodeURIComponent(`${long}-1`)}`, 'reversed'],
  ['flows', 'No flow has run yet.'],
  ['queues', `${long}Task`],
  ['workers', long],
  ['schedules', long.slice(0, 100)],
  ['sessions', long.slice(0, 100)],
  ['retention', 'Everything is kept forever.'],
  ['metrics', 'Nothing was recorded in this window.'],
  ['settings', 'Appearance'],
];

const emptyPages: readonly (readonly [path: string, title: string, how: string])[] = [
  ['', 'This store has no instances yet.', 'client.start('],
  ['instances', 'No instances yet.', 'client.start('],
  ['instances?status=failed', 'No instance matches the filter.', 'clear the filter'],
  ['flows', 'No flow has run yet.', 'runFlow('],
  ['queues', 'Nothing waits.', 'queued'],
  ['workers', 'No worker has been seen.', 'startWorker('],
  ['schedules', 'No schedules yet.', 'schedules.'],
  ['sessions', 'No sessions yet.', 'openSession('],
  ['retention', 'Everything is kept forever.', 'keepFor'],
  ['metrics', 'Nothing was recorded in this window.', 'minute'],
];

/** The request that a page needs, as a pattern of its address. */
const needs: readonly (readonly [path: string, pattern: string])[] = [
  ['', '**/v1/attention*'],
  ['instances', '**/v1/instances?*'],
  ['queues', '**/v1/queues/definitions*'],
  ['workers', '**/v1/workers*'],
  ['schedules', '**/v1/schedules*'],
  ['sessions', '**/v1/sessions*'],
  ['retention', '**/v1/retention*'],
  ['metrics', '**/v1/series*'],
];

describeDashboard(
  'layout',
  ({ open }) => {
    test('every page fits all widths with long and hostile names', async () => {
      const { page, perdure, url } = await open({
        path: null,
        worker: { name: long, orchestrations: [failing] },
        dashboard: { title: 'T'.repeat(100), environment: 'production-eu-west-1' },
      });
      await addHostileNames(perdure);
      for (const [path, text] of pages) {
        await page.goto(new URL(path, url).href);
        await page.getByText(text).first().waitFor({ state: 'attached' });
        await expectNoOverflow(page);
      }
    });

    test('every page of an empty store says what is missing and how to add it', async () => {
      const { page, url } = await open({ path: null });
      for (const [path, title, how] of emptyPages) {
        await page.goto(new URL(path, url).href);
        await page.getByText(title).first().waitFor();
        await page.getByText(how).first().waitFor();
        await expectNoOverflow(page);
      }
    });

    test('a list of one instance has one row and says so', async () => {
      const { page, perdure, url } = await open({ path: null });
      await perdure.client.start(failing, null, { id: 'only' });
      page.setDefaultTimeout(10_000);
      await page.goto(new URL('instances', url).href);
      await page.locator('.vt-rows .vr').first().waitFor();
      expect(await page.locator('.vt-rows .vr').count()).toBe(1);
      await page.getByText(/^\s*1 match/).waitFor();
    });

    test('a page shows the id of a request that failed, and reads again', async () => {
      const { page, url, watch } = await open({ path: null });
      watch.allow(/status 500|console: Failed to load resource/);
      for (const [path, pattern] of needs) {
        await page.route(pattern, (route) =>
          route.fulfill({
            status: 500,
            contentType: 'application/json',
            headers: { 'x-request-id': 'req-48184' },
            body: JSON.stringify({
              error: { code: 'INTERNAL', message: 'The store is gone.' },
              requestId: 'req-48184',
            }),
          }),
        );
        await page.goto(new URL(path, url).href);
        const problem = page.locator('.problem').first();
        await problem.getByText('req-48184').waitFor();
        await page.unroute(pattern);
        const again = problem.getByRole('button', { name: 'Try again' });
        if (await again.isVisible()) await again.click();
        await page.locator('.problem').first().waitFor({ state: 'detached' });
      }
    });

    test('a page that is read soon shows no placeholder', async () => {
      const { page, url } = await open({ path: null });
      await page.addInitScript(`
        globalThis.seenPlaceholder = false;
        const look = () => {
          const loading = document.querySelector('.loading');
          if (loading !== null && getComputedStyle(loading).opacity !== '0') seenPlaceholder = true;
          requestAnimationFrame(look);
        };
        requestAnimationFrame(look);`);
      page.setDefaultTimeout(10_000);
      await page.goto(new URL('workers', url).href);
      await page.getByText('No worker has been seen.').waitFor();
      expect(await page.evaluate('seenPlaceholder')).toBe(false);
    });
  },
  { kinds: ['SQLite'] },
);
