import { expect, test } from 'vitest';
import { orchestration, task } from '../../src/index.ts';
import { instancePath, rowOf } from './drive-page.ts';
import { describeDashboard, kindsOfPages } from './open-dashboard.ts';

const script = '<script>alert(1)</script>';
const texts = [
  script,
  '<img src=x onerror=alert(1)>',
  '..',
  '.',
  '~x',
  'a/b?c#d',
  '%2e%2e%2f',
  '../v1/instances',
  'evil\u202Egpj.exe',
  '🧾 order-７',
  'javascript:alert(1)',
  'y'.repeat(1_000),
];

const rude = orchestration(script, async (ctx, input: unknown) => {
  ctx.setCustomStatus({ [script]: input });
  ctx.emit({ [script]: input });
  await ctx.waitFor(script);
  throw Object.assign(new Error(`${script}\u202E ${'m'.repeat(1_000)}`), { code: script });
});
const rudeTask = task('<b>task</b>', () => undefined);

describeDashboard(
  'hostile names, ids and payloads',
  ({ open }) => {
    test('are shown as text on every page, their links work, and nothing executes (A15)', async () => {
      const { page, perdure, url } = await open({
        path: null,
        worker: { orchestrations: [rude], name: script, buildId: '<b>build</b>' },
        dashboard: {
          title: script,
          environment: '<i>prod</i>',
          links: [{ label: script, href: 'https://logs.example/?q={id}&n={name}' }],
        },
      });
      const { client } = perdure;
      const dialogs: string[] = [];
      page.on('dialog', (dialog) => {
        dialogs.push(dialog.message());
        void dialog.dismiss();
      });
      for (const id of texts) {
        await client.start(rude, { id, [script]: id }, { id, tags: { tag: id.slice(0, 100) } });
      }
      await client.runTask(rudeTask, undefined, { id: '<b>run</b>' });
      await client.schedules.put(script, { task: rudeTask, every: '1h' });
      await (await client.openSession({ label: script })).setVariable('v', script);
      await client.raiseEvent(script, script, { [script]: script });
      await client.wait(script);
      await client.pause('..', { reason: script, actor: script });
      await client.cancel('a/b?c#d', { reason: script, actor: script });

      await page.goto(`${url}instances`);
      for (const id of texts) {
        const row = rowOf(page, id);
        await row.waitFor();
        // The link of a long id is wider than its cell.
        const start = { position: { x: 2, y: 8 } };
        await row.getByRole('link', { name: id, exact: true }).click(start);
        await page.getByRole('heading', { level: 1, name: id }).waitFor();
        expect(page.url(), 'address').toBe(url + instancePath(id));
        // The address alone opens the instance.
        await page.reload();
        expect(await page.getByRole('heading', { level: 1 }).first().innerText()).toBe(id);
        const isThorough = [script, 'a/b?c#d', '..'].includes(id);
        for (const tab of isThorough
          ? ['history', 'tree', 'payloads', 'state', 'stream', 'executions', 'raw', 'timeline']
          : []) {
          await page.getByRole('link', { name: new RegExp(`^${tab}`, 'i') }).click();
          await page.waitForURL(new RegExp(`/${tab}$|instances/[^/]+$`));
        }
        await page.goto(`${url}instances`);
      }
      await page.goto(url + instancePath(script));
      const link = page.getByRole('link', { name: script }).first();
      await link.waitFor();
      for (const [path, text] of [
        ['', script],
        ['queues', '<b>task</b>'],
        ['workers', '<b>build</b>'],
        ['schedules', script],
        ['sessions', script],
        ['retention', script],
        ['metrics', 'Nothing was recorded in this window.'],
        ['flows', 'No flow has run yet.'],
      ] as const) {
        await page.goto(url + path);
        await page.getByRole('main').getByText(text).first().waitFor();
      }
      await page.goto(`${url}schedules?schedule=${encodeURIComponent(script)}`);
      await page.getByRole('complementary', { name: `Schedule ${script}` }).waitFor();
      await page.goto(
        `${url}instances?name=${encodeURIComponent(script)}&error=${encodeURIComponent(script)}`,
      );
      await rowOf(page, script).waitFor();
      expect(await page.locator('bdi script, bdi img, bdi b').count()).toBe(0);
      expect(dialogs).toEqual([]);
    });

    test('a long or reversed name stays inside its own text', async () => {
      const { page, perdure, url } = await open({ path: null });
      const id = `abc\u202E${'z'.repeat(200)}`;
      await perdure.client.start('idle', undefined, { id });
      await page.goto(url + instancePath(id));
      const heading = page.getByRole('heading', { level: 1 }).locator('bdi');
      await heading.waitFor();
      expect(await heading.innerText()).toBe(id);
      expect(await page.evaluate('document.documentElement.scrollWidth <= window.innerWidth')).toBe(
        true,
      );
    });
  },
  { kinds: kindsOfPages },
);
