import { expect, test } from 'vitest';
import type { Client } from '../../src/index.ts';
import { auditOf, rowOf, shows } from './drive-page.ts';
import { describeDashboard, kindsOfPages } from './open-dashboard.ts';

/** The instances that are canceled by filter: 10,000 as in bound A12 with `npm run test:large`. */
const many = process.env['MODE'] === 'large' ? 10_000 : 1_000;

/** Starts task runs that no worker has. */
async function startMany(client: Client, count: number): Promise<void> {
  for (let from = 0; from < count; from += 500) {
    const requests = Array.from({ length: 500 }, (_, index) => ({
      task: 'resendMail',
      options: { id: `mail-${from + index}` },
    }));
    await client.runTasks(requests);
  }
}

describeDashboard(
  'by keyboard alone (A12)',
  ({ open, seed }) => {
    test('find a failed order, read why, retry it, and see it run', async () => {
      const { page, perdure, keyboard } = await open({ keyboardOnly: true });
      await shows(page, 'Needs attention');
      await keyboard.press('g', 'i');
      await page.getByRole('heading', { level: 1, name: 'Instances' }).waitFor();
      await keyboard.press('/');
      await keyboard.type('error:insufficient');
      await keyboard.press('Enter');
      await page.waitForURL(/error=insufficient/);
      await keyboard.press('Escape', 'Escape');
      const id = seed().ids.failed;
      await rowOf(page, seed().ids.running).waitFor({ state: 'detached' });
      await rowOf(page, id).waitFor();
      await keyboard.press('j');
      await page.locator('.vr.cur').filter({ hasText: id }).waitFor();
      await keyboard.press('Enter');
      await page.getByRole('heading', { level: 1, name: id }).waitFor();
      await page.getByRole('status').filter({ hasText: 'insufficient funds' }).waitFor();
      await keyboard.tabTo(/^Retry/);
      await keyboard.press('Enter');
      await page.getByRole('dialog').waitFor();
      await keyboard.type('card was replaced');
      await keyboard.press('Enter');
      await shows(page, 'Execution 2 has started.');
      await expect.poll(async () => (await perdure.client.get(id))?.executionId).toBe(2);
      await shows(page, /Execution\s*2/);
      expect(await auditOf(perdure.client, 'retry', { instanceId: id })).toMatchObject({
        reason: 'card was replaced',
      });
    });

    test(`cancel ${many} instances by filter`, async () => {
      const { page, perdure, keyboard } = await open({ keyboardOnly: true });
      const { client } = perdure;
      await startMany(client, many);
      await keyboard.press('g', 'i');
      await rowOf(page, `mail-${many - 1}`).waitFor();
      await keyboard.press('/');
      await keyboard.type('id:mail-');
      await keyboard.press('Enter');
      await page.waitForURL(/id=mail-/);
      await keyboard.press('Escape', 'Escape');
      await rowOf(page, `mail-${many - 1}`).waitFor();
      await keyboard.press('j', 'x');
      await shows(page, '1 selected');
      await keyboard.tabTo(/^Select all .*that match/);
      await keyboard.press('Enter');
      await shows(page, /^[\d,]+\+? that match$/);
      await keyboard.press('c');
      await page.getByRole('heading', { name: /^Cancel 1,?0,?000? instances/ }).waitFor();
      await keyboard.type('sent twice');
      await keyboard.tabTo(/^Type/);
      await keyboard.type(String(many));
      await keyboard.press('Enter');
      const dock = page.getByRole('region', { name: 'Bulk action' });
      await dock.getByText(/^Done:/).waitFor({ timeout: 60_000 });
      expect(
        await client.count({ name: 'resendMail', status: 'canceled' }, { cap: 20_000 }),
      ).toMatchObject({ count: many });
      expect(await auditOf(client, 'cancelBulk')).toMatchObject({
        reason: 'sent twice',
        instances: many,
      });
    });

    test('inspect a blocked instance', async () => {
      const { page, keyboard } = await open({ keyboardOnly: true });
      await shows(page, 'Needs attention');
      const { name } = await keyboard.tabTo(/blocked/i);
      expect(name).toMatch(/blocked/i);
      await keyboard.press('Enter');
      await page.waitForURL(/blocked=yes/);
      await rowOf(page, seed().ids.blocked).waitFor();
      const rows = await page.locator('.vr:not(.h)').allInnerTexts();
      const place = rows.findIndex((row) => row.includes(seed().ids.blocked));
      await keyboard.press(...Array.from({ length: place + 1 }, () => 'j'));
      await page.locator('.vr.cur').filter({ hasText: seed().ids.blocked }).waitFor();
      await keyboard.press('Enter');
      await page.getByRole('heading', { level: 1, name: seed().ids.blocked }).waitFor();
      await shows(page, /applyVoucher/);
      await shows(page, /chargeCard/);
      await keyboard.tabTo(/^History/);
      await keyboard.press('Enter');
      await page.waitForURL(/history$/);
    });
  },
  { seed: true, kinds: kindsOfPages },
);
