import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import type { Client } from '../../src/index.ts';
import { auditOf, chooseItem, confirmDialog, instancePath, shows, signIn } from './drive-page.ts';
import { describeDashboard, kindsOfPages } from './open-dashboard.ts';

const more = /^Fork, run again/;
const actor = 'admin token';

/** An input of `fulfilOrder`. */
function order(number: number, method = 'card_7c21') {
  return { order: String(number), amount: 4_900, currency: 'EUR', method };
}

describeDashboard(
  'actions on one instance',
  ({ open, seed }) => {
    const client = (): Client => seed().perdure.client;
    /** Opens the page of an instance as an admin. */
    const openInstance = async (id: string, allowed?: RegExp): Promise<Page> => {
      const { page, tokens, watch } = await open({ login: true, path: instancePath(id) });
      await signIn(page, tokens.admin);
      await page.getByRole('heading', { level: 1, name: id }).waitFor();
      // The browser writes refused requests to the console.
      if (allowed !== undefined) watch.allow(allowed);
      return page;
    };
    const press = (page: Page, name: string | RegExp): Promise<void> =>
      page.locator('.acts').getByRole('button', { name }).click();
    /** Starts an order that waits for its payment. */
    const startOrder = async (number: number, method?: string): Promise<string> => {
      const id = `order-${number}`;
      await client().start('fulfilOrder', order(number, method), { id, version: '3' });
      await expect
        .poll(async () => (await client().get(id))?.customStatus)
        .toMatchObject({ step: 'payment' });
      return id;
    };
    /** Starts an order whose card is declined. */
    const failOrder = async (number: number): Promise<string> => {
      const id = await startOrder(number, 'card_declined');
      await client().raiseEvent(id, 'paymentConfirmed', { reference: 'pay' });
      await client().wait(id);
      return id;
    };

    test('Start starts an instance with an id and an input, and opens it', async () => {
      const { page, tokens, url } = await open({ login: true, path: 'instances' });
      await signIn(page, tokens.operate);
      await page.getByRole('button', { name: 'Start', exact: true }).click();
      await confirmDialog(page, {
        Orchestration: 'refundOrder',
        'Id of the new instance': 'refund-1',
        Input: JSON.stringify(order(50_001)),
      });
      await page.waitForURL(`${url}instances/refund-1`);
      await shows(page, 'Started refund-1.');
      expect(await client().get('refund-1')).toMatchObject({
        name: 'refundOrder',
        input: order(50_001),
      });
    });

    test('an input that is not JSON cannot be sent', async () => {
      const page = await openInstance(seed().ids.waitsForEvent);
      await press(page, 'Send event');
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('Event').fill('paymentConfirmed');
      await dialog.getByLabel('Payload').fill('{ reference: 7 }');
      await shows(page, /Not valid JSON/);
      expect(await dialog.locator('button[type=submit]').isDisabled()).toBe(true);
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
    });

    test('Send event delivers the payload to the code', async () => {
      const id = await startOrder(50_010);
      const page = await openInstance(id);
      await press(page, 'Send event');
      await confirmDialog(page, { Event: 'paymentConfirmed', Payload: '{"reference":"pay-1"}' });
      await shows(page, 'Event sent.');
      await expect
        .poll(async () => (await client().get(id))?.customStatus)
        .toMatchObject({ step: 'delivery' });
      expect(JSON.stringify(await client().history(id))).toContain('pay-1');
      await shows(page, /delivered/);
    });

    test('Pause and Resume change the instance, with the reason in the audit', async () => {
      const id = await startOrder(50_020);
      const page = await openInstance(id);
      await press(page, 'Pause');
      await confirmDialog(page, { Reason: 'acquirer outage' });
      await page.locator('.chip').filter({ hasText: 'Paused' }).waitFor();
      expect((await client().get(id))?.paused).toMatchObject({ reason: 'acquirer outage', actor });
      expect(await auditOf(client(), 'pause', { instanceId: id })).toMatchObject({
        actor,
        reason: 'acquirer outage',
        instances: 1,
      });
      await press(page, 'Resume');
      await confirmDialog(page, { Reason: 'outage over' });
      await page.locator('.chip').filter({ hasText: 'Paused' }).waitFor({ state: 'detached' });
      expect((await client().get(id))?.paused).toBeUndefined();
      expect(await auditOf(client(), 'resume', { instanceId: id })).toMatchObject({
        actor,
        reason: 'outage over',
      });
    });

    test('Cancel stores the reason and the page shows the end', async () => {
      const id = await startOrder(50_030);
      const page = await openInstance(id);
      await press(page, 'Cancel…');
      await confirmDialog(page, { Reason: 'customer left', 'Clean-up limit': '1m' });
      await page.locator('.chip').filter({ hasText: 'Canceled' }).waitFor();
      expect(await client().get(id)).toMatchObject({
        status: 'canceled',
        cancel: { reason: 'customer left', actor },
      });
      expect(await auditOf(client(), 'cancel', { instanceId: id })).toMatchObject({
        actor,
        reason: 'customer left',
      });
    });

    test('Cancel that the server refuses keeps the dialog and shows the error', async () => {
      const id = await startOrder(50_035);
      const page = await openInstance(id, /status of 400/);
      await press(page, 'Cancel…');
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('Clean-up limit').fill('soon');
      await dialog.locator('button[type=submit]').click();
      await dialog.getByRole('alert').waitFor();
      await shows(page, /status 400/);
      expect((await client().get(id))?.status).toBe('running');
    });

    test('Terminate ends the instance and its descendants', async () => {
      const page = await openInstance('order-48211');
      await chooseItem(page, more, 'Terminate…');
      await confirmDialog(page, { Reason: 'test order', 'Also terminate descendants': true });
      await page.locator('.chip').filter({ hasText: 'Terminated' }).waitFor();
      expect(await client().get('order-48211')).toMatchObject({
        status: 'terminated',
        terminated: { reason: 'test order', actor },
      });
      expect(await auditOf(client(), 'terminate', { instanceId: 'order-48211' })).toMatchObject({
        actor,
        reason: 'test order',
      });
    });

    test('Retry from the failure keeps what succeeded', async () => {
      const id = await failOrder(50_040);
      const page = await openInstance(id);
      await shows(page, /insufficient funds/);
      await press(page, 'Retry…');
      await confirmDialog(page, { From: 'failure', Reason: 'funds arrived' });
      await shows(page, 'Execution 2 has started.');
      await client().wait(id);
      // The payment was confirmed before the failure, so the retry does not wait for it.
      expect(await client().get(id)).toMatchObject({ status: 'failed', executionId: 2 });
      expect(await auditOf(client(), 'retry', { instanceId: id })).toMatchObject({
        actor,
        reason: 'funds arrived',
      });
    });

    test('Retry from the start takes an edited input', async () => {
      const id = 'refund-2';
      await client().start('refundOrder', order(50_041), { id });
      await client().cancel(id, { wait: true });
      const page = await openInstance(id);
      await press(page, 'Retry…');
      await confirmDialog(page, {
        From: 'start',
        Input: JSON.stringify(order(50_042)),
        Reason: 'another order',
      });
      await page.locator('.chip').filter({ hasText: 'Running' }).waitFor();
      expect(await client().get(id)).toMatchObject({
        status: 'running',
        executionId: 2,
        input: { order: '50042' },
      });
      expect(await auditOf(client(), 'retry', { instanceId: id })).toMatchObject({
        actor,
        reason: 'another order',
      });
    });

    test('Fork creates an instance that links to its origin', async () => {
      const id = await failOrder(50_050);
      const page = await openInstance(id);
      await chooseItem(page, more, 'Fork…');
      await confirmDialog(page, {
        From: 'start',
        'Id of the new instance': 'fork-1',
        Input: JSON.stringify(order(50_051)),
        Reason: 'what if',
      });
      await page.getByRole('heading', { level: 1, name: 'fork-1' }).waitFor();
      await shows(page, 'Forked from');
      expect(await client().get('fork-1')).toMatchObject({
        forkedFrom: { id },
        input: { order: '50051' },
      });
      expect((await client().get(id))?.status).toBe('failed');
      expect(await auditOf(client(), 'fork')).toMatchObject({ actor, reason: 'what if' });
    });

    test('Run again offers the input of the instance and starts another one', async () => {
      const page = await openInstance(seed().ids.failed);
      await chooseItem(page, more, 'Run again');
      const dialog = page.getByRole('dialog');
      await expect.poll(() => dialog.getByLabel('Input').inputValue()).toContain('"card_declined"');
      await confirmDialog(page, { 'Id of the new instance': 'again-1' });
      await page.getByRole('heading', { level: 1, name: 'again-1' }).waitFor();
      const first = await client().get(seed().ids.failed);
      expect(await client().get('again-1')).toMatchObject({
        name: 'fulfilOrder',
        input: first?.input,
      });
    });

    test('Prune deletes finished executions', async () => {
      const id = 'subscription-globex';
      const executions = async () => (await client().listExecutions(id)).items.length;
      const before = await executions();
      const page = await openInstance(id);
      await chooseItem(page, more, 'Prune executions…');
      await confirmDialog(page, { 'Executions to keep': '2' });
      await shows(page, 'Pruned.');
      expect(before).toBeGreaterThan(2);
      expect(await executions()).toBe(2);
      expect(await auditOf(client(), 'prune')).toMatchObject({ actor });
    });

    test('Delete removes an ended instance and returns to the list', async () => {
      const id = await failOrder(50_060);
      // The page follows the instance until it has left it.
      const page = await openInstance(id, /status of 404/);
      await chooseItem(page, more, 'Delete…');
      await confirmDialog(page);
      await page.getByRole('heading', { level: 1, name: 'Instances' }).waitFor();
      expect(await client().get(id)).toBeUndefined();
      expect(await auditOf(client(), 'delete')).toMatchObject({ actor, instancesDeleted: 4 });
    });

    test('Delete is disabled while the instance is active', async () => {
      const page = await openInstance(seed().ids.waitsForEvent);
      await page.locator('.acts').getByRole('button', { name: more }).click();
      const item = page.getByRole('menuitem', { name: 'Delete…' });
      expect(await item.getAttribute('aria-disabled')).toBe('true');
      await item.click({ force: true });
      expect(await page.getByRole('dialog').count()).toBe(0);
    });
  },
  { seed: true, kinds: kindsOfPages },
);
