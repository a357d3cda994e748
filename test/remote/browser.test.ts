import { expect, onTestFinished, test } from 'vitest';
import { activity, orchestration, task } from '../../src/index.ts';
import { launchChromium } from '../browser/launch-chromium.ts';
import type { RunPage } from './browser-program.ts';
import { describeRemote } from './describe-remote.ts';
import { startPageServer } from './page-server.ts';

const greet = activity('greet', (_ctx, name: string) => Promise.resolve(`Hello, ${name}!`));
const hello = orchestration('hello', (ctx, name: string) => ctx.call(greet, name));
const count = task('count', async (ctx, to: number) => {
  for (let number = 1; number <= to; number += 1) await ctx.emit(number);
});

describeRemote('a remote client in a browser', (open) => {
  test('a browser starts, streams and cancels more jobs than it has connections', async () => {
    const endless = task('endless', async (ctx) => {
      await ctx.canceled();
      ctx.throwIfCanceled();
    });
    const pages = await startPageServer('test/remote/browser-program.ts');
    onTestFinished(() => pages.close());
    const definitions = { orchestrations: [hello], activities: [greet], tasks: [count, endless] };
    const { perdure, server, token } = await open(definitions, {
      serve: { allowedOrigins: [pages.origin] },
    });
    const browser = await launchChromium();
    onTestFinished(() => browser.close());
    const page = await browser.newPage();
    const complaints: string[] = [];
    page.on('pageerror', (error) => complaints.push(String(error)));
    await page.goto(pages.origin);
    await page.waitForFunction(() => 'runPage' in globalThis);
    const report = await page.evaluate(
      ([url, secret]) =>
        (globalThis as unknown as { runPage: RunPage }).runPage(url ?? '', secret ?? ''),
      [server.url, token],
    );
    expect(complaints).toEqual([]);
    expect(report).toMatchObject({
      hello: 'Hello, Browser!',
      refusal: 'INSTANCE_NOT_FOUND',
      chunks: [1, 2, 3, 4, 5],
      results: Array.from({ length: 20 }, (_, index) => `Hello, no. ${index}!`),
    });
    expect(report.cancelMs).toBeLessThan(5_000);
    const canceled = async () =>
      (await perdure.client.list({ name: 'endless', status: 'canceled' })).items.length;
    await expect.poll(canceled, { timeout: 10_000 }).toBe(20);
  });
});
