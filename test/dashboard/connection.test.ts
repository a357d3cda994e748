import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { orchestration } from '../../src/index.ts';
import { instancePath, rowOf, shows, signIn } from './drive-page.ts';
import { describeDashboard } from './open-dashboard.ts';

const go = orchestration('go', async (ctx, steps: number) => {
  for (let step = 1; step <= steps; step += 1) {
    await ctx.waitFor('go');
    ctx.setCustomStatus({ step });
  }
});
const worker = { orchestrations: [go] };
/** What the browser writes to the console about requests that fail. */
const failedRequests = /Failed to load resource|net::ERR_/;
const chip = (page: Page, word: string) => page.locator('.chip').filter({ hasText: word });

// Logins and lost connections do not depend on the store.
describeDashboard(
  'login and connection',
  ({ open }) => {
    test('a wrong token is refused with a message, the right one opens the requested page', async () => {
      const { page, tokens, watch, url, perdure } = await open({ login: true, path: null });
      await perdure.client.start('idle', undefined, { id: 'one' });
      watch.allow(/status of 401/);
      await page.goto(`${url}instances?id=o`);
      await page.getByLabel('Token').fill('perdure_wrong');
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByRole('alert').waitFor();
      expect(await page.getByRole('alert').innerText()).toContain('401');
      await signIn(page, tokens.read);
      await rowOf(page, 'one').waitFor();
      expect(page.url()).toBe(`${url}instances?id=o`);
      expect(
        await page.evaluate('JSON.stringify([localStorage, sessionStorage, document.cookie])'),
      ).not.toContain('perdure_');
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.getByLabel('Token').waitFor();
      await page.reload();
      await page.getByLabel('Token').waitFor();
      expect(await page.getByText('one').count()).toBe(0);
    });

    test('an expired session shows the login, and the page returns after it', async () => {
      const { page, tokens, watch, perdure } = await open({
        login: true,
        path: 'instances',
        dashboard: { sessionMaxAge: '2s' },
      });
      watch.allow(/status of 401/);
      await perdure.client.start('idle', undefined, { id: 'one' });
      await signIn(page, tokens.operate);
      await rowOf(page, 'one').waitFor();
      await page.getByLabel('Token').waitFor();
      expect(await rowOf(page, 'one').count()).toBe(0);
      await signIn(page, tokens.operate);
      await rowOf(page, 'one').waitFor();
    });

    test('a revoked token ends open streams and shows the login', async () => {
      const { page, tokens, watch, perdure, revoke } = await open({
        login: true,
        path: instancePath('one'),
        serve: { authMaxAge: '500ms' },
      });
      watch.allow(/status of 401/);
      await perdure.client.start('idle', undefined, { id: 'one' });
      await signIn(page, tokens.operate);
      await chip(page, 'Pending').waitFor();
      revoke('operate');
      await page.getByLabel('Token').waitFor({ timeout: 10_000 });
      expect(await chip(page, 'Pending').count()).toBe(0);
    });

    test('a second tab shares the session, and sign-out reaches both', async () => {
      const { page, tokens, watch, newPage } = await open({ login: true, path: 'queues' });
      watch.allow(/status of 401/);
      await signIn(page, tokens.operate);
      const other = await newPage('workers');
      await other.getByRole('heading', { level: 1, name: 'Workers' }).waitFor();
      await page.getByRole('button', { name: 'Sign out' }).click();
      await other.getByLabel('Token').waitFor();
    });

    test.each([-5, 7])('ages are right with a browser clock off by %i hours', async (hours) => {
      const { page, perdure, url } = await open({ path: null });
      await perdure.client.start('idle', undefined, { id: 'one' });
      await page.clock.install({ time: Date.now() + hours * 3_600_000 });
      await page.goto(`${url}instances`);
      await rowOf(page, 'one').waitFor();
      await expect
        .poll(() => rowOf(page, 'one').locator('time').last().innerText())
        .toMatch(/^\d+ ?s$/);
      await page.goto(`${url}instances?created=15m`);
      await rowOf(page, 'one').waitFor();
    });

    test('an instance that is deleted while it is open says so', async () => {
      const { page, perdure, watch, url } = await open({ path: null });
      watch.allow(/status of 404/);
      await perdure.client.start('idle', undefined, { id: 'one' });
      await page.goto(url + instancePath('one'));
      await chip(page, 'Pending').waitFor();
      await perdure.client.terminate('one');
      await chip(page, 'Terminated').waitFor();
      await perdure.client.deleteInstance('one');
      await shows(page, 'This instance was deleted.');
      await page.goto(url + instancePath('never-started'));
      await shows(page, 'There is no such instance.');
    });

    test('a payload of 2 MiB opens in parts, and its numbers are exact', async () => {
      const { page, perdure, url } = await open({ path: null });
      const input = {
        large: 9_007_199_254_740_991,
        small: 1e-7,
        lines: Array.from({ length: 30_000 }, (_, index) => `line ${index} ${'x'.repeat(50)}`),
      };
      await perdure.client.start('idle', input, { id: 'one' });
      await page.goto(url + instancePath('one', 'payloads'));
      await shows(page, '9007199254740991');
      await shows(page, '1e-7');
      await shows(page, /MiB|MB/);
      await page.getByRole('button', { name: /^Show more than/ }).click();
      await shows(page, 'line 1200 ');
    });

    test('offline is announced, and the page is current after it', async () => {
      const { page, context, perdure, watch, url } = await open({ path: null, worker });
      watch.allow(failedRequests);
      await perdure.client.start(go, 3, { id: 'one' });
      await page.goto(url + instancePath('one', 'state'));
      await chip(page, 'Running').waitFor();
      await context.setOffline(true);
      await shows(page, /The server cannot be reached/);
      await shows(page, 'Connection lost');
      await perdure.client.raiseEvent('one', 'go');
      await context.setOffline(false);
      await page
        .getByText('Connection lost')
        .first()
        .waitFor({ state: 'detached', timeout: 20_000 });
      await shows(page, '"step"');
      expect(await page.getByText('The server cannot be reached').count()).toBe(0);
    });

    test('a list that was opened offline appears when the server answers again', async () => {
      const { page, context, perdure, watch } = await open({ path: 'workers' });
      watch.allow(failedRequests);
      await perdure.client.start('idle', undefined, { id: 'one' });
      await page.getByRole('link', { name: 'Instances' }).first().click();
      await rowOf(page, 'one').waitFor();
      await context.setOffline(true);
      await page.getByRole('button', { name: /^Pending/ }).click();
      await shows(page, /cannot be reached/);
      await context.setOffline(false);
      await rowOf(page, 'one').waitFor({ timeout: 20_000 });
    });

    test('a restarted server is found again within 35 s, without a reload (A17)', async () => {
      const { page, perdure, watch, url, stop, restart } = await open({ path: null, worker });
      watch.allow(failedRequests);
      await perdure.client.start(go, 1, { id: 'one' });
      await page.goto(url + instancePath('one'));
      await page.evaluate('globalThis.notReloaded = true');
      await chip(page, 'Running').waitFor();
      await stop();
      await shows(page, 'Connection lost');
      expect(await page.locator('.live.live').filter({ hasText: 'Live' }).count()).toBe(0);
      await perdure.client.raiseEvent('one', 'go');
      await perdure.client.wait('one');
      await page.waitForTimeout(4_000);
      const restartedAt = Date.now();
      await restart();
      await chip(page, 'Completed').waitFor({ timeout: 35_000 });
      await page.getByText('Connection lost').first().waitFor({ state: 'detached' });
      expect(Date.now() - restartedAt).toBeLessThan(35_000);
      console.info(`A17 recovery: ${Date.now() - restartedAt} ms`);
      expect(await page.evaluate('globalThis.notReloaded')).toBe(true);
    });

    test('fields that this version does not know are ignored', async () => {
      const { page, perdure, url } = await open({ path: null });
      await perdure.client.start('idle', undefined, { id: 'one' });
      await page.route(/\/(session|v1\/.*)$/, async (route) => {
        const request = route.request();
        const isStream = request.headers()['accept'] === 'text/event-stream';
        if (request.method() !== 'GET' || isStream) return route.continue();
        const response = await route.fetch();
        if (!(response.headers()['content-type'] ?? '').includes('json')) {
          return route.fulfill({ response });
        }
        const body = (await response.json()) as object;
        const changed = JSON.stringify(body).replaceAll('{"', '{"fieldOfNewerVersion":{"a":1},"');
        await route.fulfill({ response, body: changed });
      });
      for (const path of [
        '',
        'instances',
        instancePath('one'),
        'queues',
        'workers',
        'schedules',
        'retention',
        'settings',
      ]) {
        await page.goto(url + path);
        await page.getByRole('heading', { level: 1 }).first().waitFor();
        await page.waitForLoadState('load');
        expect(await page.getByRole('alert').count(), `alerts on ${path}`).toBe(0);
      }
    });

    test('a page whose file is gone after an update offers a reload', async () => {
      const { page, watch } = await open();
      watch.allow(/status of 404|MIME|dynamically imported/);
      await shows(page, 'Needs attention');
      await page.route('**/assets/retention*.js', (route) => route.fulfill({ status: 404 }));
      await page.getByRole('link', { name: 'Retention and audit' }).click();
      await shows(page, /has a new version/);
      await page.unroute('**/assets/retention*.js');
      await page.getByRole('button', { name: 'Try again' }).click();
      await page.getByRole('heading', { level: 1, name: 'Retention and audit' }).waitFor();
    });
  },
  { kinds: ['SQLite'] },
);
