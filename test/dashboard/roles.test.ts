import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { writeRetention } from '../../src/management/retention-records.ts';
import type { Role } from '../../src/server.ts';
import { auditOf, confirmDialog, instancePath, rowOf, shows, signIn } from './drive-page.ts';
import { describeDashboard, kindsOfPages } from './open-dashboard.ts';
import { expectAccessible } from './page-checks.ts';

/** Who may use the buttons: an action with its role. */
type Needed = Readonly<Record<string, 'operate' | 'admin'>>;

const ranks = { read: 0, operate: 1, admin: 2 } as const;

/** Names of the buttons and menu items of a page, with the menus open. */
async function controls(page: Page): Promise<readonly string[]> {
  const menu = page.locator('.acts [aria-haspopup=menu], .bulk [aria-haspopup=menu]');
  const names: string[] = [];
  for (const one of await menu.all()) {
    await one.click();
    names.push(...(await page.getByRole('menuitem').allInnerTexts()));
    await page.keyboard.press('Escape');
  }
  const texts = await page.locator('main button').allInnerTexts();
  return [...names, ...texts].map((text) => text.trim());
}

interface Case {
  readonly page: string;
  readonly path: string;
  readonly ready: string | RegExp;
  readonly needs: Needed;
  readonly prepare?: (page: Page) => Promise<void>;
}

const ids = ['go-active', 'go-failed'] as const;

/** Pages with all their actions. */
const cases: readonly Case[] = [
  {
    page: 'an active instance',
    path: instancePath(ids[0]),
    ready: 'Pending',
    needs: {
      'Send event': 'operate',
      Pause: 'operate',
      'Cancel…': 'operate',
      'Terminate…': 'operate',
      'Fork…': 'operate',
      'Prune executions…': 'admin',
      'Delete…': 'admin',
    },
  },
  {
    page: 'an ended instance',
    path: instancePath(ids[1]),
    ready: /Terminated/,
    needs: { 'Retry…': 'operate', 'Fork…': 'operate', 'Delete…': 'admin' },
  },
  {
    page: 'the list',
    path: 'instances',
    ready: ids[0],
    prepare: async (page) => {
      await rowOf(page, ids[0]).getByRole('checkbox').click();
    },
    needs: {
      Start: 'operate',
      'Retry…': 'operate',
      'Cancel…': 'operate',
      'Send event…': 'operate',
      'Delete…': 'admin',
    },
  },
  { page: 'queues', path: 'queues', ready: 'idle', needs: { Pause: 'operate' } },
  {
    page: 'limits',
    path: 'queues?limit=task:limited',
    ready: 'Keys with the most',
    needs: { 'Change…': 'operate', 'Reset…': 'operate' },
  },
  {
    page: 'schedules',
    path: 'schedules?schedule=nightly',
    ready: 'Last runs',
    needs: { 'Trigger now': 'operate', Pause: 'operate' },
  },
  {
    page: 'sessions',
    path: 'sessions?session={session}',
    ready: 'Variables',
    // Operators may shut down the sessions of their own token only.
    needs: { 'Shut down…': 'admin' },
  },
  {
    page: 'retention',
    path: 'retention',
    ready: /kept forever|Applies to/,
    needs: { 'Sweep now': 'admin', Pause: 'admin' },
  },
];

/** The requests of the actions. */
const requests: readonly (readonly [path: string, body: object, needs: 'operate' | 'admin'])[] = [
  ['v1/instances', { name: 'idle', id: 'started-by-request' }, 'operate'],
  [`v1/instances/${ids[0]}/cancel`, {}, 'operate'],
  [`v1/instances/${ids[0]}/terminate`, {}, 'operate'],
  [`v1/instances/${ids[0]}/pause`, {}, 'operate'],
  [`v1/instances/${ids[0]}/resume`, {}, 'operate'],
  [`v1/instances/${ids[0]}/events`, { name: 'x' }, 'operate'],
  [`v1/instances/${ids[1]}/retry`, { from: 'start' }, 'operate'],
  [`v1/instances/${ids[1]}/fork`, { from: 'start' }, 'operate'],
  [`v1/instances/${ids[1]}/prune`, {}, 'admin'],
  [`v1/instances/${ids[1]}/delete`, {}, 'admin'],
  ['v1/bulk/cancel', { filter: { idPrefix: 'nothing' } }, 'operate'],
  ['v1/bulk/retry', { filter: { idPrefix: 'nothing' }, from: 'start' }, 'operate'],
  ['v1/bulk/delete-trees', { filter: { idPrefix: 'nothing' } }, 'admin'],
  ['v1/definitions/pause', { name: 'idle', kind: 'task' }, 'operate'],
  ['v1/limits/limited', { kind: 'task', concurrency: { global: 3 } }, 'operate'],
  ['v1/limits/limited/reset', { kind: 'task' }, 'operate'],
  ['v1/schedules/nightly/trigger', {}, 'operate'],
  ['v1/schedules/nightly/pause', {}, 'operate'],
  ['v1/sessions/{session}/shutdown', { mode: 'forceful' }, 'admin'],
  ['v1/retention/pause', {}, 'admin'],
  ['v1/retention/run', {}, 'admin'],
];

describeDashboard(
  'roles',
  ({ open }) => {
    const prepare = async (options: Parameters<typeof open>[0] = {}) => {
      const opened = await open({ login: true, path: null, ...options });
      const { client } = opened.perdure;
      const { id: sessionId } = await client.openSession({ label: 'import' });
      await client.start('idle', undefined, { id: ids[0] });
      await client.start('idle', undefined, { id: ids[1] });
      await client.terminate(ids[1]);
      await client.runTask('idle', undefined, { id: 'task-1' });
      await client.schedules.put('nightly', { task: 'idle', every: '1d' });
      const limited = { kind: 'task', name: 'limited' } as const;
      await client.limits.set(limited, { concurrency: { global: 2, perKey: 1 } });
      await client.runTask('limited', undefined, { key: 'acme' });
      return { ...opened, client, sessionId };
    };

    const expectControls = async (
      { page, url, sessionId }: Awaited<ReturnType<typeof prepare>>,
      role: Role,
    ): Promise<void> => {
      const found: Record<string, boolean> = {};
      const expected: Record<string, boolean> = {};
      for (const { page: name, path, ready, needs, prepare: before } of cases) {
        await page.goto(url + path.replace('{session}', sessionId));
        await page.getByText(ready).first().waitFor();
        await before?.(page);
        const shown = await controls(page);
        for (const [action, needed] of Object.entries(needs)) {
          found[`${name}: ${action}`] = shown.includes(action);
          expected[`${name}: ${action}`] = ranks[role] >= ranks[needed];
        }
      }
      expect(found).toEqual(expected);
    };

    /** Sends the requests of the actions as the page would, with its cookie and CSRF token. */
    const statuses = async (
      page: Page,
      sessionId: string,
    ): Promise<Readonly<Record<string, number>>> =>
      await page.evaluate(
        async ([list, session]) => {
          const { csrfToken } = (await (await fetch('/session')).json()) as { csrfToken: string };
          const found: Record<string, number> = {};
          for (const [path, body] of list) {
            const response = await fetch(`/${path.replace('{session}', session)}`, {
              method: 'POST',
              headers: { 'content-type': 'application/json', 'x-perdure-csrf': csrfToken },
              body: JSON.stringify(body),
            });
            found[path] = response.status;
          }
          return found;
        },
        [requests, sessionId] as unknown as [[string, object][], string],
      );

    test.each(['read', 'operate', 'admin'] as const)(
      'the role %s has exactly its buttons and requests (A14)',
      async (role) => {
        const opened = await prepare();
        const { page, tokens, url, watch, client, sessionId } = opened;
        await page.goto(url);
        await signIn(page, tokens[role]);
        await expectControls(opened, role);
        watch.allow(/status of 4/);
        const found = await statuses(page, sessionId);
        for (const [path, , needed] of requests) {
          const isAllowed = ranks[role] >= ranks[needed];
          expect([path, found[path] === 403], `request ${path}`).toEqual([path, !isAllowed]);
          if (isAllowed) expect(found[path], `request ${path}`).not.toBe(404);
        }
        if (role === 'read') expect((await client.get(ids[0]))?.status).toBe('pending');
      },
    );

    test('readOnly hides every action from admins and refuses their requests', async () => {
      const opened = await prepare({ dashboard: { readOnly: true } });
      const { page, tokens, url, watch, client, sessionId } = opened;
      await page.goto(url);
      await signIn(page, tokens.admin);
      await expectControls(opened, 'read');
      watch.allow(/status of 4/);
      expect(new Set(Object.values(await statuses(page, sessionId)))).toEqual(new Set([403]));
      expect((await client.get(ids[0]))?.status).toBe('pending');
    });

    test('a definition is paused and resumed for all workers', async () => {
      const { page, tokens, url, client } = await prepare();
      await page.goto(`${url}queues`);
      await signIn(page, tokens.operate);
      const row = page.getByRole('row', { name: /^idle/ }).first();
      await row.getByRole('button', { name: 'Pause' }).click();
      await row.getByRole('button', { name: 'Resume' }).waitFor();
      expect(await client.pausedDefinitions()).toHaveLength(1);
      expect(await auditOf(client, 'pause')).toMatchObject({ actor: 'operate token' });
      await row.getByRole('button', { name: 'Resume' }).click();
      await row.getByRole('button', { name: 'Pause' }).waitFor();
      expect(await client.pausedDefinitions()).toHaveLength(0);
      expect(await auditOf(client, 'resume')).toMatchObject({ actor: 'operate token' });
    });

    test('limits are changed and reset for all workers, with a reason', async () => {
      const { page, tokens, url, client } = await prepare();
      await page.goto(`${url}queues`);
      await signIn(page, tokens.operate);
      const row = page.getByRole('row', { name: /^limited 2 at a time, 1 per key/ });
      await row.getByRole('button', { name: 'limited' }).click();
      const panel = page.getByRole('complementary', { name: 'Limits of limited' });
      await panel.getByRole('row', { name: /^acme/ }).waitFor();
      await expectAccessible(page);
      await panel.getByRole('button', { name: 'Change…' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel(/^Rate/).fill('often');
      await dialog.getByText('Rate must be a count and a period').waitFor();
      expect(await dialog.locator('button[type=submit]').isDisabled()).toBe(true);
      await expectAccessible(page);
      await confirmDialog(page, {
        'At a time': '7',
        'Per key': '',
        Rate: '100/1m',
        'Each key': true,
        Reason: 'new contract',
      });
      await shows(page, 'The limits of limited are changed for all workers.');
      const rate = { limit: 100, perMs: 60_000, burst: 0, perKey: true };
      expect((await client.limits.get('limited'))?.effective).toEqual({ global: 7, rate });
      expect(await auditOf(client, 'limitsSet')).toMatchObject({
        actor: 'operate token',
        reason: 'new contract',
      });
      await panel.getByText('7 at a time, 100 per minute per key').waitFor();
      await panel.getByRole('button', { name: 'Reset…' }).click();
      await confirmDialog(page, { Reason: 'back' });
      await shows(page, 'limited has the limits of its code again.');
      expect((await client.limits.get('limited'))?.effective).toEqual({});
      expect(await auditOf(client, 'limitsReset')).toMatchObject({ reason: 'back' });
    });

    test('a schedule is triggered, paused and resumed', async () => {
      const { page, tokens, url, client } = await prepare();
      await page.goto(`${url}schedules`);
      await signIn(page, tokens.operate);
      await page.getByRole('button', { name: 'nightly' }).click();
      const panel = page.getByRole('complementary', { name: 'Schedule nightly' });
      await panel.getByRole('button', { name: 'Trigger now' }).click();
      await shows(page, 'nightly was triggered.');
      expect((await client.schedules.get('nightly'))?.lastRuns).toHaveLength(1);
      await panel.getByRole('listitem').filter({ hasText: 'Pending' }).getByRole('link').waitFor();
      expect(await auditOf(client, 'trigger')).toMatchObject({ actor: 'operate token' });
      await panel.getByRole('button', { name: 'Pause' }).click();
      await panel.getByRole('button', { name: 'Resume' }).waitFor();
      expect((await client.schedules.get('nightly'))?.paused).toBe(true);
      expect(await auditOf(client, 'schedulePause')).toMatchObject({ actor: 'operate token' });
      await panel.getByRole('button', { name: 'Resume' }).click();
      await panel.getByRole('button', { name: 'Pause' }).waitFor();
      expect((await client.schedules.get('nightly'))?.paused).toBe(false);
      expect(await auditOf(client, 'scheduleResume')).toMatchObject({ actor: 'operate token' });
    });

    test('a session is shut down with a reason', async () => {
      const { page, tokens, url, client, sessionId } = await prepare();
      await page.goto(`${url}sessions?session=${sessionId}`);
      await signIn(page, tokens.admin);
      await page.getByRole('button', { name: 'Shut down…' }).click();
      await confirmDialog(page, { Reason: 'client is gone' });
      await shows(page, 'The session is shutting down.');
      await expect.poll(async () => (await client.sessions.get(sessionId))?.state).toBe('ended');
      expect(await auditOf(client, 'sessionShutdown')).toMatchObject({
        actor: 'admin token',
        reason: 'client is gone',
      });
    });

    test('retention is swept, paused and resumed, and the audit shows it', async () => {
      const { page, tokens, url, client, store } = await prepare();
      await page.goto(`${url}retention`);
      await signIn(page, tokens.admin);
      const sweep = page.getByRole('button', { name: 'Sweep now' });
      await sweep.waitFor();
      expect(await sweep.isDisabled()).toBe(true);
      // As the sweep of a worker does.
      const provider = await store.open();
      await writeRetention(provider, 'policies', [{ statuses: 'terminated', keepFor: '0s' }]);
      await provider.close();
      await expect.poll(() => sweep.isEnabled()).toBe(true);
      await sweep.click();
      await shows(page, 'The sweep is done.');
      expect(await client.get(ids[1])).toBeUndefined();
      expect(await auditOf(client, 'retention')).toMatchObject({ actor: 'admin token' });
      await page.getByRole('button', { name: 'Pause', exact: true }).click();
      await page.getByRole('button', { name: 'Resume', exact: true }).waitFor();
      expect((await client.retention.status()).paused).toMatchObject({ actor: 'admin token' });
      expect(await auditOf(client, 'retentionPause')).toMatchObject({ actor: 'admin token' });
      await page.getByRole('button', { name: 'Resume', exact: true }).click();
      await page.getByRole('button', { name: 'Pause', exact: true }).waitFor();
      expect((await client.retention.status()).paused).toBeNull();
      expect(await auditOf(client, 'retentionResume')).toMatchObject({ actor: 'admin token' });
      await page.getByLabel('Action').selectOption('retentionPause');
      await page.getByRole('cell', { name: 'retentionPause' }).waitFor();
      const audit = page.getByRole('table', { name: 'Audit' });
      await expect.poll(() => audit.getByRole('cell', { name: /^retention/ }).count()).toBe(1);
    });
  },
  { kinds: kindsOfPages },
);
