import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { orchestration, type Client } from '../../src/index.ts';
import { auditOf, chooseItem, confirmDialog, rowOf, shows, signIn } from './drive-page.ts';
import { describeDashboard } from './open-dashboard.ts';

const actor = 'admin token';

/** Starts instances that no worker runs, or that wait for the event `go`. */
async function startMany(client: Client, count: number, prefix: string): Promise<void> {
  for (let from = 0; from < count; from += 500) {
    await client.runTasks(
      Array.from({ length: Math.min(500, count - from) }, (_, index) => ({
        task: 'idle',
        options: { id: `${prefix}-${from + index}` },
      })),
    );
  }
}

/** Selects rows by their check boxes. */
async function select(page: Page, ...ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    await rowOf(page, id)
      .getByRole('checkbox', { name: `Select ${id}` })
      .click();
  }
  await page.getByRole('toolbar').getByText(`${ids.length} selected`).waitFor();
}

async function selectAll(page: Page, one: string): Promise<void> {
  await select(page, one);
  await page.getByRole('button', { name: /^Select all .*that match/ }).click();
}

const dock = (page: Page) => page.getByRole('region', { name: 'Bulk action' });

const go = orchestration('go', async (ctx) => {
  await ctx.waitFor('go');
});

describeDashboard('bulk actions', ({ open }) => {
  const openList = async (search: string, worker = false) => {
    const opened = await open({
      login: true,
      path: null,
      ...(worker && { worker: { orchestrations: [go] } }),
    });
    return { ...opened, client: opened.perdure.client, search };
  };
  const show = async (
    { page, url, tokens }: Awaited<ReturnType<typeof openList>>,
    search: string,
  ): Promise<void> => {
    await page.goto(`${url}instances?${search}`);
    await signIn(page, tokens.admin);
  };

  test('pause, resume, event, cancel, terminate and delete act on the selection', async () => {
    const opened = await openList('', true);
    const { page, client, watch } = opened;
    // A retry of an instance that has not ended.
    watch.allow(/status of 409/);
    const ids = ['go-1', 'go-2', 'go-3', 'go-4'];
    for (const id of ids) await client.start(go, undefined, { id });
    await show(opened, 'id=go-');
    await select(page, 'go-1', 'go-2');
    const toolbar = page.getByRole('toolbar', { name: 'Bulk actions' });
    await toolbar.getByRole('button', { name: 'Pause' }).click();
    const dryRun = page.getByRole('dialog').getByRole('list', { name: 'Dry run' });
    await expect.poll(() => dryRun.innerText()).toMatch(/^2\s+start nothing new$/);
    await confirmDialog(page, { Reason: 'deploy' });
    await dock(page).getByText('Done: Pause 2 instances').waitFor();
    expect((await client.get('go-1'))?.paused).toMatchObject({ reason: 'deploy', actor });
    expect((await client.get('go-3'))?.paused).toBeUndefined();
    expect(await auditOf(client, 'pause')).toMatchObject({ actor, reason: 'deploy' });

    await select(page, 'go-1', 'go-2');
    await chooseItem(page, 'More actions', 'Resume');
    await confirmDialog(page);
    await dock(page).getByText('Done: Resume 2 instances').waitFor();
    expect((await client.get('go-2'))?.paused).toBeUndefined();

    await select(page, 'go-1');
    await chooseItem(page, 'More actions', 'Send event…');
    await confirmDialog(page, { Event: 'go' });
    await dock(page).getByText('Done: Send an event to 1 instance').waitFor();
    await client.wait('go-1');
    expect((await client.get('go-1'))?.status).toBe('completed');

    // The one that has ended is refused.
    await select(page, 'go-1', 'go-2');
    await page.keyboard.press('c');
    await confirmDialog(page, { Reason: 'not needed' });
    await dock(page).getByText('Done: Cancel 2 instances').waitFor();
    await dock(page).getByText('It stays as it is: completed.').waitFor();
    expect((await client.wait('go-2').then(() => client.get('go-2')))?.cancel).toMatchObject({
      reason: 'not needed',
      actor,
    });

    await select(page, 'go-3');
    await chooseItem(page, 'More actions', 'Terminate…');
    await confirmDialog(page, { Reason: 'stuck' });
    await dock(page).getByText('Done: Terminate 1 instance').waitFor();
    expect((await client.get('go-3'))?.terminated).toEqual({ reason: 'stuck', actor });

    await select(page, 'go-3', 'go-4');
    await toolbar.getByRole('button', { name: 'Retry…' }).click();
    await confirmDialog(page, { From: 'start', Reason: 'again' });
    await dock(page).getByText('Done: Retry 2 instances').waitFor();
    expect(await client.get('go-3')).toMatchObject({ executionId: 2 });
    // The one that has not ended is refused, with a link.
    await dock(page).getByRole('link', { name: 'go-4' }).waitFor();

    await select(page, 'go-1', 'go-2');
    await chooseItem(page, 'More actions', 'Delete…');
    await confirmDialog(page);
    await dock(page).getByText('Done: Delete 2 instances').waitFor();
    expect(await client.get('go-1')).toBeUndefined();
    expect(await client.get('go-2')).toBeUndefined();
    await rowOf(page, 'go-1').waitFor({ state: 'detached' });
    expect(await auditOf(client, 'delete')).toMatchObject({ actor });
  });

  test('by filter: dry run, typed count above 100, progress, audit', async () => {
    const opened = await openList('');
    const { page, client } = opened;
    await startMany(client, 120, 'idle');
    await startMany(client, 3, 'other');
    await client.cancel('idle-7');
    await show(opened, 'id=idle-');
    await selectAll(page, 'idle-119');
    await page.getByRole('toolbar').getByRole('button', { name: 'Cancel…' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('heading', { name: 'Cancel 120 instances' }).waitFor();
    const dry = dialog.getByRole('list', { name: 'Dry run' });
    expect(await dry.getByRole('listitem').allInnerTexts()).toEqual([
      expect.stringMatching(/119.*have not started/s),
      expect.stringMatching(/1.*have ended/s),
    ]);
    const button = dialog.locator('button[type=submit]');
    expect(await button.isDisabled()).toBe(true);
    await dialog.getByLabel(/^Type/).fill('12');
    expect(await button.isDisabled()).toBe(true);
    await confirmDialog(page, { Reason: 'wrong queue', Type: '120' });
    await dock(page).getByText('Done: Cancel 120 instances').waitFor();
    await expect.poll(() => client.count({ status: 'canceled' })).toMatchObject({ count: 120 });
    expect(await client.count({ idPrefix: 'other-', status: 'pending' })).toMatchObject({
      count: 3,
    });
    expect(await auditOf(client, 'cancelBulk')).toMatchObject({
      actor,
      reason: 'wrong queue',
      instances: 119,
    });
    await page
      .getByRole('button', { name: /^Canceled/ })
      .getByText('120')
      .waitFor();
  });

  test('Stop ends a bulk action between two parts; what was changed stays changed', async () => {
    const opened = await openList('');
    const { page, client } = opened;
    await startMany(client, 150, 'idle');
    await show(opened, 'id=idle-');
    await selectAll(page, 'idle-149');
    // The second part waits, as on a slow store.
    const { promise: stopped, resolve: continueAfterStop } = Promise.withResolvers<void>();
    let parts = 0;
    await page.route('**/v1/bulk/cancel', async (route) => {
      const body = route.request().postDataJSON() as { readonly dryRun?: boolean };
      if (body.dryRun === true) return route.continue();
      parts += 1;
      if (parts > 1) await stopped;
      await route
        .continue({ postData: JSON.stringify({ ...body, limit: 50 }) })
        .catch(() => undefined);
    });
    await page.getByRole('toolbar').getByRole('button', { name: 'Cancel…' }).click();
    await confirmDialog(page, { Type: '150' });
    await dock(page).getByRole('img', { name: '50 of 150' }).waitFor();
    await dock(page).getByRole('button', { name: 'Stop' }).click();
    await dock(page).getByText('Stopped: Cancel 150 instances').waitFor();
    continueAfterStop();
    await shows(page, /What was changed stays changed/);
    expect(await client.count({ status: 'canceled' })).toMatchObject({ count: 50 });
    expect(await client.count({ status: 'pending' })).toMatchObject({ count: 100 });
  });

  test('a bulk action that the server refuses shows the error', async () => {
    const opened = await openList('');
    const { page, client, watch } = opened;
    await startMany(client, 3, 'idle');
    await show(opened, 'id=idle-');
    await selectAll(page, 'idle-2');
    await page.getByRole('toolbar').getByRole('button', { name: 'Cancel…' }).click();
    watch.allow(/status of 400/);
    await confirmDialog(page, { 'Clean-up limit': 'soon' });
    await dock(page).getByText('Failed: Cancel 3 instances').waitFor();
    await dock(page).getByRole('alert').waitFor();
    expect(await client.count({ status: 'pending' })).toMatchObject({ count: 3 });
  });
});
