import { expect, test } from 'vitest';
import { event, orchestration, task } from '../../src/index.ts';
import { instancePath } from './drive-page.ts';
import { describeDashboard } from './open-dashboard.ts';
import { expectAccessible, expectNoOverflow } from './page-checks.ts';

const more = event<number>('more');
const agent = orchestration('agent', async (ctx) => {
  ctx.emit({ status: 'thinking' });
  for (;;) {
    const n = await ctx.waitFor(more);
    if (n < 0) return;
    await ctx.run('answer', async (step) => {
      await step.emit({ token: `token ${n}` });
    });
  }
});
const flood = task('flood', async (ctx) => {
  for (let n = 0; n < 120; n += 1) void ctx.emit({ n, text: 'x'.repeat(1_000) });
});
const quiet = task('quiet', () => 'done');
const held = task('held', async (ctx) => {
  await ctx.emit('for the caller');
  await ctx.canceled();
  ctx.throwIfCanceled();
});

describeDashboard('stream of an instance', ({ open }) => {
  test('the stream page shows chunks as they are emitted, all of them after a reload, and the end', async () => {
    const { page, perdure, url } = await open({ path: null, worker: { orchestrations: [agent] } });
    const { client } = perdure;
    await client.start(agent, undefined, { id: 'agent' });
    await page.goto(url + instancePath('agent', 'stream'));
    const rows = page.locator('.vt-rows .er');
    await rows.filter({ hasText: '"thinking"' }).waitFor();
    for (const n of [1, 2]) {
      await client.raiseEvent('agent', more, n);
      await rows.filter({ hasText: `token ${n}` }).waitFor();
    }
    // The newest is first.
    expect(await rows.locator(':nth-child(3)').allInnerTexts()).toEqual([
      'answer',
      'answer',
      'orchestration',
    ]);
    await page.reload();
    await rows.nth(2).waitFor();
    await page.getByRole('button', { name: 'answer' }).first().click();
    const panel = page.getByRole('complementary', { name: 'Chunk 3' });
    await panel.getByText('"token 2"').waitFor();
    for (const colorScheme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme });
      await expectAccessible(page);
    }
    await expectNoOverflow(page);
    await panel.getByRole('button', { name: 'Close' }).click();
    await client.raiseEvent('agent', more, -1);
    await client.wait('agent');
    await page.reload();
    await rows.nth(2).waitFor();
    expect(await rows.count()).toBe(3);
  });

  test('the stream page explains dropped chunks, empty streams and jobs', async () => {
    const worker = { tasks: [flood, quiet, held], streamLimitBytes: 64 * 1024 };
    const { page, perdure, url, watch } = await open({ path: null, worker });
    watch.allow(/status of 409/);
    const { client } = perdure;
    await (await client.runTask(flood, undefined, { id: 'flood' })).result();
    await (await client.runTask(quiet, undefined, { id: 'quiet' })).result();
    await page.goto(url + instancePath('flood', 'stream'));
    await page.locator('.vt-rows .er').filter({ hasText: '"n":119' }).waitFor();
    await page.getByRole('grid', { name: 'Stream' }).press('End');
    await page.getByText(/^\d+ chunks exceeded the limit of the stream/).waitFor();
    await page.goto(url + instancePath('quiet', 'stream'));
    await page.getByText('Nothing was emitted.').waitFor();
    await expectAccessible(page);
    const job = client.submit(held);
    await job.stream()[Symbol.asyncIterator]().next();
    await page.goto(url + instancePath(job.id, 'stream'));
    await page.getByText('The chunks of a job go to its caller.').waitFor();
    job.close();
  });
});
