import { expect, test } from 'vitest';
import { seededPages } from './dashboard-pages.ts';
import { instancePath, rowOf, shows } from './drive-page.ts';
import { describeDashboard } from './open-dashboard.ts';

// The harness fails a test for a CSP report, a foreign request or a console error (bound A13). `every-page.test.ts` opens
// the pages below `/` on SQLite.
for (const [kind, basePath] of [
  ['PostgreSQL', '/'],
  ['SQLite', '/a/b/'],
] as const) {
  describeDashboard(
    'pages',
    ({ open }) => {
      test(`every page loads from its address below ${basePath}`, async () => {
        const { page, url } = await open({ path: null, basePath });
        for (const { path, text } of seededPages) {
          await page.goto(new URL(path, url).href);
          await page.getByText(text).first().waitFor({ state: 'attached' });
          expect(await page.getByRole('alert').count(), `alerts on ${path}`).toBe(0);
        }
      });
    },
    { seed: true, kinds: [kind] },
  );
}

// What the browser keeps does not depend on the store.
describeDashboard(
  'the list of instances',
  ({ open, seed }) => {
    test('back and forward restore page, tab and filter', async () => {
      const { page, url } = await open({ path: 'instances' });
      await page.getByRole('button', { name: /^Failed/ }).click();
      await rowOf(page, seed().ids.failed).getByRole('link').first().click();
      await page.getByRole('link', { name: 'Payloads' }).click();
      await shows(page, 'card_declined');
      await page.goBack();
      expect(page.url()).toBe(url + instancePath(seed().ids.failed));
      await page.goBack();
      expect(page.url()).toBe(`${url}instances?status=failed`);
      await rowOf(page, seed().ids.failed).waitFor();
      expect(await rowOf(page, seed().ids.running).count()).toBe(0);
      await page.goBack();
      await rowOf(page, seed().ids.running).waitFor();
      await page.goForward();
      await page.goForward();
      await page.getByRole('heading', { level: 1, name: seed().ids.failed }).waitFor();
      await page.goForward();
      await shows(page, 'card_declined');
    });

    test('every filter is in the address and finds its instance, also after a reload', async () => {
      const { page, url } = await open({ path: 'instances' });
      for (const [typed, search, id] of [
        ['name:refundOrder', 'name=refundOrder', seed().ids.failedRefund],
        ['id:catalogue-', 'id=catalogue-', seed().ids.flow],
        ['tag:campaign=flash-sale', 'tag=campaign%3Dflash-sale', seed().ids.canceled],
        ['kind:task', 'kind=task', seed().ids.leaked],
        ['version:4', 'version=4', seed().ids.noWorker],
        ['code:ACTIVITY_FAILED', 'code=ACTIVITY_FAILED', seed().ids.failed],
        ['error:insufficient', 'error=insufficient', seed().ids.failed],
        ['blocked:yes', 'blocked=yes', seed().ids.blocked],
        ['paused:yes', 'paused=yes', seed().ids.paused],
        ['leaked:yes', 'leaked=yes', seed().ids.leaked],
        ['parent:order-48209', 'parent=order-48209', 'order-48209:quote'],
        ['ended:15m', 'ended=15m', 'order-48161'],
      ] as const) {
        await page.getByRole('combobox', { name: 'Add a filter' }).fill(typed);
        await page.keyboard.press('Enter');
        await page.waitForURL(`${url}instances?${search}`);
        await rowOf(page, id).waitFor();
        await page.reload();
        await rowOf(page, id).waitFor();
        expect(await rowOf(page, seed().ids.running).count(), `filter ${typed}`).toBe(0);
        await page.getByRole('button', { name: /^Remove filter/ }).click();
        await page.waitForURL(`${url}instances`);
      }
    });

    test('an address with invalid conditions shows the list', async () => {
      const { page } = await open({
        path: 'instances?status=nonsense&created=soon&kind=x&createdFrom=never&blocked=maybe&tag=a',
      });
      await rowOf(page, seed().ids.running).waitFor();
    });

    test('a saved view appears in all tabs, is applied, and can be removed', async () => {
      const { page, newPage } = await open({ path: 'instances?status=failed' });
      const other = await newPage('instances');
      await page.getByRole('button', { name: 'Save view' }).click();
      await page.getByRole('dialog').getByLabel('Name').fill('<b>Declined</b>');
      await page.getByRole('dialog').getByRole('button', { name: 'Save view' }).click();
      const views = other.locator('#main').getByRole('navigation', { name: 'Saved views' });
      await views.getByRole('link', { name: '<b>Declined</b>' }).click();
      await rowOf(other, seed().ids.failed).waitFor();
      expect(new URL(other.url()).search).toBe('?status=failed');
      await other.getByRole('button', { name: 'Remove view <b>Declined</b>' }).click();
      await page.getByText('<b>Declined</b>').first().waitFor({ state: 'detached' });
    });

    test('columns are chosen and kept', async () => {
      const { page, newPage } = await open({ path: 'instances' });
      await page.getByRole('button', { name: 'Columns' }).click();
      await page.getByRole('menuitem', { name: 'Show tags' }).click();
      await page.getByRole('button', { name: 'Columns' }).click();
      await page.getByRole('menuitem', { name: 'Hide age' }).click();
      const other = await newPage('instances');
      for (const one of [page, other]) {
        await one.getByRole('columnheader', { name: 'Tags' }).waitFor();
        expect(await one.getByRole('columnheader', { name: 'Age' }).count()).toBe(0);
      }
      await rowOf(other, seed().ids.running).getByText('tenant=south').waitFor();
    });

    test('theme, density and time zone of the settings are kept and reach other tabs', async () => {
      const { page, newPage } = await open({
        path: 'settings',
        context: { timezoneId: 'Asia/Tokyo' },
      });
      const other = await newPage(instancePath(seed().ids.failed));
      const started = async (): Promise<string> =>
        await other.locator('.meta time').first().innerText();
      await expect.poll(started).toMatch(/\d/);
      const local = await started();
      for (const name of ['Dark', 'Compact', 'UTC']) {
        await page.getByText(name, { exact: true }).click();
      }
      const root = (one: typeof page) => one.locator('html');
      await expect.poll(() => root(other).getAttribute('data-theme')).toBe('dark');
      await expect.poll(() => root(other).getAttribute('data-density')).toBe('compact');
      await expect.poll(started).not.toBe(local);
      await other.reload();
      await expect.poll(() => root(other).getAttribute('data-theme')).toBe('dark');
    });

    test('an instance that is new appears in the list of another tab', async () => {
      const { page, perdure } = await open({ path: 'instances?name=idle' });
      await shows(page, 'No instance matches the filter.');
      await perdure.client.start('idle', undefined, { id: 'idle-1' });
      await rowOf(page, 'idle-1').waitFor();
      await perdure.client.cancel('idle-1', { reason: 'not needed' });
      await rowOf(page, 'idle-1').getByText('Canceled').waitFor();
      await perdure.client.deleteInstance('idle-1');
      await rowOf(page, 'idle-1').waitFor({ state: 'detached' });
    });

    test('the palette finds an instance by the beginning of its id, and acts on the highlighted one', async () => {
      const { page, url } = await open({ path: 'instances?error=insufficient' });
      const { failed, retrying } = seed().ids;
      await rowOf(page, failed).waitFor();
      await page.keyboard.press('j');
      await page.keyboard.press('Control+k');
      await page.getByRole('group', { name: `Act on ${failed}` }).waitFor();
      await page.keyboard.type(retrying);
      await page.getByRole('option', { name: `${retrying} fulfilOrder` }).hover();
      const group = page.getByRole('group', { name: `Act on ${retrying}` });
      await group.getByRole('option', { name: 'Cancel' }).click();
      await page.getByRole('dialog', { name: `Cancel ${retrying}` }).waitFor();
      await page.keyboard.press('Escape');
      await page.keyboard.press('Control+k');
      await page.keyboard.type('order-4818');
      await page.getByRole('option', { name: `${failed} fulfilOrder` }).click();
      await page.waitForURL(url + instancePath(failed));
    });

    test('a row says what is retried, by which worker, and when it last moved', async () => {
      const { retrying, running } = seed().ids;
      const { page, url } = await open({ path: `instances?id=${retrying}` });
      await rowOf(page, retrying).locator('.st', { hasText: 'Retrying' }).waitFor();
      await page.goto(`${url}instances?id=${running}`);
      const row = rowOf(page, running);
      await row.getByText(/^worker-/).waitFor();
      expect(await row.locator('.st').innerText()).toBe('Running');
      expect(await row.innerText()).toMatch(/\d+ (s|min|h) ago/);
    });

    test('branches of a tree close and open', async () => {
      const id = seed().ids.waitsForChild;
      const { page } = await open({ path: instancePath(id, 'tree') });
      const child = page.getByRole('row').filter({ hasText: `${id}:quote:air` });
      await child.waitFor();
      await page.getByRole('button', { name: `Hide the descendants of ${id}:quote` }).click();
      await child.waitFor({ state: 'detached' });
      await shows(page, /^\d descendants$/);
      await page.getByRole('button', { name: 'Expand all' }).click();
      await child.waitFor();
      await page.locator('.tree .vt').focus();
      await page.keyboard.press('Home');
      await page.keyboard.press('ArrowLeft');
      await child.waitFor({ state: 'detached' });
      await page.keyboard.press('ArrowRight');
      await child.waitFor();
    });

    test('key p pauses updates until it is pressed again', async () => {
      const { page, perdure } = await open({ path: 'instances?name=idle' });
      await shows(page, 'No instance matches the filter.');
      await page.keyboard.press('p');
      await shows(page, 'Paused');
      await perdure.client.start('idle', undefined, { id: 'idle-2' });
      await page.waitForTimeout(2_500);
      expect(await rowOf(page, 'idle-2').count()).toBe(0);
      await page.keyboard.press('p');
      await rowOf(page, 'idle-2').waitFor();
    });
  },
  { seed: true, kinds: ['SQLite'] },
);
