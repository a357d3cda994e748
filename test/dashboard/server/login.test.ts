import { describe, expect, it } from 'vitest';
import type { Logger } from 'perdure';
import type { SessionState } from 'perdure/dashboard';
import { createToken, type ServerToken } from 'perdure/server';
import { FakeClock } from 'perdure/testing';
import {
  codeOf,
  openDashboard,
  serveDashboard,
  createTokens,
} from './helpers/dashboard-fixture.ts';

const minute = 60_000;
const hour = 60 * minute;

/** Reads a stream to its end. */
const readAll = async (response: Response): Promise<string> => response.text();

describe('signing in', () => {
  it('a token is exchanged for a session that reads, writes and signs out', async () => {
    const { tokens, signIn } = await openDashboard();
    const browser = await signIn(tokens.operate);
    expect(browser.state).toMatchObject({
      state: 'signedIn',
      role: 'operate',
      name: 'operate token',
      title: 'Perdure',
      environment: null,
      readOnly: false,
      links: [],
    });
    expect(browser.state.csrfToken).toMatch(/^[\w-]{43}$/);
    expect(await browser.session()).toMatchObject({ csrfToken: browser.state.csrfToken });
    expect((await browser.send('v1/instances')).status).toBe(200);
    const started = await browser.send('v1/instances', {
      method: 'POST',
      body: { name: 'hello', id: 'one' },
    });
    expect(started.status).toBe(200);
    const left = await browser.send('session', { method: 'DELETE' });
    expect(await left.json()).toMatchObject({ state: 'signedOut', role: null, csrfToken: null });
    expect(left.headers.get('set-cookie')).toContain('Max-Age=0');
    const after = await browser.send('v1/instances');
    expect([after.status, await codeOf(after)]).toEqual([401, 'UNAUTHENTICATED']);
    expect((await browser.session()).state).toBe('signedOut');
  });

  it('GET /session returns the settings without a sign-in, and is never cached', async () => {
    const clock = new FakeClock({ startAt: 5_000 });
    const links = [{ label: 'Logs', href: 'https://logs.example.com/?id={id}' }];
    const { send } = await openDashboard({
      title: 'Shop',
      environment: 'production',
      readOnly: true,
      links,
      clock,
    });
    const response = await send('session');
    expect(response.headers.get('cache-control')).toBe('no-store');
    const state = (await response.json()) as SessionState;
    expect(state).toEqual({
      state: 'signedOut',
      role: null,
      name: null,
      csrfToken: null,
      expiresAt: null,
      title: 'Shop',
      environment: 'production',
      readOnly: true,
      links,
      version: expect.stringMatching(/^\d+\.\d+\.\d+/) as string,
      now: 5_000,
    });
  });

  it('a dashboard without authentication is open, and a sign-in changes nothing', async () => {
    const { send } = await openDashboard({ tokens: undefined, insecure: true });
    expect(await (await send('session')).json()).toMatchObject({ state: 'open', role: 'admin' });
    const response = await send('session', { method: 'POST', body: { token: 'any' } });
    expect(await response.json()).toMatchObject({ state: 'open', csrfToken: null });
    expect(response.headers.has('set-cookie')).toBe(false);
    expect((await send('v1/instances')).status).toBe(200);
  });

  it('authorize() of the host signs its users in without a token', async () => {
    const { send } = await openDashboard({
      tokens: undefined,
      authorize: ({ headers }) =>
        headers.get('x-user') === null ? null : { name: 'ann', role: 'read' },
    });
    expect(await (await send('session')).json()).toMatchObject({ state: 'signedOut' });
    const headers = { 'x-user': 'ann' };
    expect(await (await send('session', { headers })).json()).toMatchObject({
      state: 'signedIn',
      name: 'ann',
      role: 'read',
      csrfToken: null,
    });
    expect((await send('v1/instances', { headers })).status).toBe(200);
    const denied = await send('session', { method: 'POST', body: { token: 'x' } });
    expect(denied.status).toBe(401);
  });

  it('the cookie is __Host- and Secure over TLS, and plain on http://localhost', async () => {
    const { tokens, list } = createTokens();
    const { url } = await serveDashboard({ tokens: list });
    const signIn = (headers: Record<string, string>): Promise<Response> =>
      fetch(`${url}/session`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ token: tokens.read }),
      });
    const host = new URL(url).host;
    const plain = (await signIn({ origin: url })).headers.getSetCookie();
    expect(plain).toEqual([
      expect.stringMatching(
        /^perdure-session=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict$/,
      ) as string,
    ]);
    // A proxy that ends TLS: the origin of the page tells, or a header of the proxy.
    for (const headers of [
      { origin: `https://${host}` },
      { 'x-forwarded-proto': 'https' },
      { forwarded: 'for=192.0.2.1;proto=https' },
    ]) {
      const cookie = (await signIn(headers)).headers.getSetCookie();
      expect(cookie).toEqual([
        expect.stringMatching(
          /^__Host-perdure=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Secure$/,
        ) as string,
      ]);
    }
  });

  it('a session opened over TLS is not accepted under the name of the plain cookie', async () => {
    const { tokens, signIn, send } = await openDashboard();
    const { cookie } = await signIn(tokens.admin);
    const planted = cookie.replace('__Host-perdure', 'perdure-session');
    expect((await send('v1/instances', { headers: { cookie: planted } })).status).toBe(401);
    expect((await send('v1/instances', { headers: { cookie } })).status).toBe(200);
  });

  it('each sign-in has a new id, and ends the session of the cookie that it replaces', async () => {
    const { tokens, signIn, send } = await openDashboard();
    const first = await signIn(tokens.read);
    const again = await first.send('session', { method: 'POST', body: { token: tokens.admin } });
    expect(again.headers.get('set-cookie')).not.toContain(first.cookie);
    const old = await send('v1/instances', { headers: { cookie: first.cookie } });
    expect(old.status).toBe(401);
  });

  it('a request with a Bearer token ignores the cookie, also if the token is wrong', async () => {
    const { tokens, signIn } = await openDashboard();
    const browser = await signIn(tokens.admin);
    const as = (authorization: string): Promise<Response> =>
      browser.send('v1/me', { headers: { authorization } });
    expect(await (await as(`Bearer ${tokens.read}`)).json()).toMatchObject({ role: 'read' });
    expect((await as('Bearer wrong')).status).toBe(401);
    // A proxy with its own password sends it with every request.
    expect(await (await as('Basic dXNlcjpwYXNz')).json()).toMatchObject({ role: 'admin' });
  });

  it('two dashboards of one host have different cookies', async () => {
    const one = await openDashboard({ basePath: '/a/b/' });
    const other = await openDashboard({ basePath: '/c/' });
    const { cookie } = await one.signIn(one.tokens.read);
    expect(cookie).toMatch(/^__Host-perdure-a-b=/);
    expect((await other.signIn(other.tokens.read)).cookie).toMatch(/^__Host-perdure-c=/);
  });
});

describe('wrong tokens', () => {
  it('wrong tokens get 401, then 429, while a valid token still signs in', async () => {
    const { tokens, send, signIn } = await openDashboard({ limits: { wrongTokensPerMinute: 3 } });
    const seen: unknown[] = [];
    for (let tried = 0; tried < 5; tried += 1) {
      const response = await send('session', { method: 'POST', body: { token: `wrong${tried}` } });
      expect(response.headers.has('set-cookie')).toBe(false);
      seen.push([response.status, await codeOf(response)]);
    }
    expect(seen).toEqual([
      ...Array.from({ length: 3 }, () => [401, 'UNAUTHENTICATED']),
      ...Array.from({ length: 2 }, () => [429, 'RATE_LIMITED']),
    ]);
    expect((await signIn(tokens.read)).state.state).toBe('signedIn');
  });

  it('requests of an ended session get 401 and do not count as wrong tokens', async () => {
    const { tokens, signIn, send } = await openDashboard({ limits: { wrongTokensPerMinute: 1 } });
    const browser = await signIn(tokens.read);
    await browser.send('session', { method: 'DELETE' });
    for (let tried = 0; tried < 5; tried += 1) {
      expect((await browser.send('v1/instances')).status).toBe(401);
    }
    const wrong = await send('session', { method: 'POST', body: { token: 'wrong' } });
    expect(wrong.status).toBe(401);
  });

  it('a wrong token counts also beside the cookie of an ended session', async () => {
    const { send } = await openDashboard({ limits: { wrongTokensPerMinute: 2 } });
    const cookie = `__Host-perdure=${'x'.repeat(43)}`;
    const headers = { cookie, authorization: 'Bearer wrong' };
    const statuses: number[] = [];
    for (let tried = 0; tried < 3; tried += 1) {
      statuses.push((await send('v1/instances', { headers })).status);
    }
    expect(statuses).toEqual([401, 401, 429]);
  });

  it('invalid bodies of a sign-in are rejected', async () => {
    const { send } = await openDashboard();
    const bodies = [{}, { token: 1 }, { token: '' }, { token: 'x', more: 1 }, [], null, 'x'];
    for (const body of bodies) {
      const response = await send('session', { method: 'POST', body });
      expect([body, response.status]).toEqual([body, 400]);
    }
    const long = await send('session', { method: 'POST', body: { token: 'x'.repeat(5_000) } });
    expect([long.status, await codeOf(long)]).toEqual([413, 'BODY_TOO_LARGE']);
    const form = await send('session', {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    });
    expect([form.status, await codeOf(form)]).toEqual([415, 'NOT_JSON']);
    const put = await send('session', { method: 'PUT', body: {} });
    expect([put.status, put.headers.get('allow')]).toEqual([405, 'DELETE, GET, POST']);
  });

  it('no log line has a token, a session id or a CSRF token', async () => {
    const lines: string[] = [];
    const add = (fields: object, text: string): void =>
      void lines.push(JSON.stringify({ ...fields, text }));
    const logger: Logger = { debug: add, info: add, warn: add, error: add };
    const { tokens, signIn, send } = await openDashboard({ logger });
    const browser = await signIn(tokens.admin);
    await browser.send('v1/instances', { method: 'POST', body: { name: 'x' } });
    await browser.send('v1/instances', { method: 'POST', headers: { 'x-perdure-csrf': 'wrong' } });
    await send('session', { method: 'POST', body: { token: 'wrong-token' } });
    expect(lines.length).toBeGreaterThan(3);
    const [, id = ''] = browser.cookie.split('=');
    for (const secret of [tokens.admin, 'wrong-token', id, browser.state.csrfToken ?? '-']) {
      expect(lines.filter((line) => line.includes(secret))).toEqual([]);
    }
  });
});

describe('expiry', () => {
  it('a session ends after sessionIdle without a request to the API', async () => {
    const clock = new FakeClock();
    const { tokens, signIn } = await openDashboard({ clock });
    const browser = await signIn(tokens.read);
    expect(browser.state.expiresAt).toBe(clock.now() + 30 * minute);
    await clock.advance(29 * minute);
    expect((await browser.send('v1/instances')).status).toBe(200);
    await clock.advance(29 * minute);
    // Reading the state does not count as use.
    expect((await browser.session()).state).toBe('signedIn');
    await clock.advance(minute - 1);
    expect((await browser.session()).state).toBe('signedIn');
    await clock.advance(1);
    expect((await browser.session()).state).toBe('signedOut');
    expect((await browser.send('v1/instances')).status).toBe(401);
  });

  it('a session in constant use ends after sessionMaxAge', async () => {
    const clock = new FakeClock();
    const { tokens, signIn } = await openDashboard({ clock, sessionMaxAge: '2h' });
    const browser = await signIn(tokens.read);
    const endsAt = clock.now() + 2 * hour;
    const statuses: number[] = [];
    for (let passed = 0; passed < 6; passed += 1) {
      statuses.push((await browser.send('v1/instances')).status);
      await clock.advance(20 * minute);
    }
    expect(statuses).toEqual([200, 200, 200, 200, 200, 200]);
    expect(clock.now()).toBe(endsAt);
    expect((await browser.send('v1/instances')).status).toBe(401);
  });

  it('a session ends when its token expires', async () => {
    const clock = new FakeClock();
    const { token, sha256 } = createToken();
    const expiresAt = clock.now() + minute;
    const { signIn } = await openDashboard({
      tokens: [{ name: 'short', role: 'read', sha256, expiresAt }],
      clock,
    });
    const browser = await signIn(token);
    await clock.advance(minute);
    expect((await browser.session()).state).toBe('signedOut');
  });

  it('a revoked token ends its sessions; a token that returns does not revive them', async () => {
    const { token, sha256 } = createToken();
    const entry: ServerToken = { name: 'me', role: 'admin', sha256 };
    let list: readonly ServerToken[] = [entry];
    const { signIn } = await openDashboard({ tokens: () => list, authMaxAge: 1 });
    const browser = await signIn(token);
    list = [];
    await expect.poll(async () => (await browser.session()).state).toBe('signedOut');
    list = [entry];
    const signInAgain = async (): Promise<string> => (await signIn(token)).state.state;
    await expect.poll(() => signInAgain().catch(() => 'rejected')).toBe('signedIn');
    expect((await browser.session()).state).toBe('signedOut');
  });

  it('a session has the current role of its token', async () => {
    const { token, sha256 } = createToken();
    let role: ServerToken['role'] = 'admin';
    const tokens = (): readonly ServerToken[] => [{ name: 'me', role, sha256 }];
    const { signIn } = await openDashboard({ tokens, authMaxAge: 1 });
    const browser = await signIn(token);
    role = 'read';
    await expect.poll(async () => (await browser.session()).role).toBe('read');
    const denied = await browser.send('v1/instances', { method: 'POST', body: { name: 'x' } });
    expect([denied.status, await codeOf(denied)]).toEqual([403, 'FORBIDDEN']);
  });

  it('a token has at most 100 sessions: a further one ends the one unused for longest', async () => {
    const { tokens, signIn } = await openDashboard();
    const other = await signIn(tokens.admin);
    const [first, second] = [await signIn(tokens.read), await signIn(tokens.read)];
    for (let count = 2; count < 100; count += 1) await signIn(tokens.read);
    expect((await first.send('v1/instances')).status).toBe(200);
    await signIn(tokens.read);
    expect((await first.session()).state).toBe('signedIn');
    expect((await second.session()).state).toBe('signedOut');
    expect((await other.session()).state).toBe('signedIn');
  });
});

describe('open streams', () => {
  it('a stream of a session ends at sign-out, without waiting for authMaxAge', async () => {
    const { tokens, signIn } = await openDashboard({ authMaxAge: '1h' });
    const [leaves, stays] = [await signIn(tokens.read), await signIn(tokens.read)];
    const stream = await leaves.send('v1/changes');
    const caller = new AbortController();
    const other = await stays.send('v1/changes', { signal: caller.signal });
    let hasEnded = false;
    const rest = readAll(other).then(
      () => void (hasEnded = true),
      () => undefined,
    );
    const text = readAll(stream);
    await leaves.send('session', { method: 'DELETE' });
    expect(await text).toContain('UNAUTHENTICATED');
    expect(hasEnded).toBe(false);
    caller.abort();
    await rest;
  });

  it('a stream ends when its session expires or its token is revoked', async () => {
    const clock = new FakeClock();
    const [one, other] = [createToken(), createToken()];
    const kept: ServerToken = { name: 'kept', role: 'read', sha256: one.sha256 };
    const lost: ServerToken = { name: 'lost', role: 'read', sha256: other.sha256 };
    let list = [kept, lost];
    const { signIn } = await openDashboard({ tokens: () => list, authMaxAge: 10, clock });
    const revoked = readAll(await (await signIn(other.token)).send('v1/changes'));
    list = [kept];
    expect(await revoked).toContain('UNAUTHENTICATED');
    const expired = readAll(await (await signIn(one.token)).send('v1/changes'));
    await clock.advance(30 * minute);
    expect(await expired).toContain('UNAUTHENTICATED');
  });

  it('a long poll of a session that signs out gets 401 instead of its result', async () => {
    const { tokens, signIn, perdure } = await openDashboard();
    await perdure.client.start('without-a-worker', undefined, { id: 'one' });
    const browser = await signIn(tokens.read);
    const waiting = browser.send('v1/instances/one/wait?timeoutMs=20000');
    await new Promise((resolve) => setTimeout(resolve, 50));
    await browser.send('session', { method: 'DELETE' });
    expect((await waiting).status).toBe(401);
  });
});
