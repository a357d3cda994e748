import { describe, expect, it } from 'vitest';
import { codeOf, host, openDashboard, origin, type SendInit } from './helpers/dashboard-fixture.ts';

const foreign = 'https://evil.example';
const start = (headers: Record<string, string>): SendInit => ({
  method: 'POST',
  body: { name: 'hello' },
  headers,
});

describe('writes with a session cookie', () => {
  it('need the CSRF token and an own page; every other combination gets 403', async () => {
    const { tokens, signIn, handler } = await openDashboard();
    const browser = await signIn(tokens.admin);
    const other = await signIn(tokens.admin);
    const right = browser.state.csrfToken ?? '';
    const csrfTokens = {
      right,
      missing: undefined,
      wrong: 'x'.repeat(right.length),
      short: right.slice(1),
      'of another session': other.state.csrfToken ?? '',
    };
    const pages: Readonly<Record<string, Readonly<Record<string, string>>>> = {
      own: { origin, 'sec-fetch-site': 'same-origin' },
      'own, without Origin': { 'sec-fetch-site': 'same-origin' },
      'own, without Sec-Fetch-Site': { origin },
      unmarked: {},
      'address bar': { 'sec-fetch-site': 'none' },
      'another origin': { origin: foreign, 'sec-fetch-site': 'cross-site' },
      'another origin, unmarked': { origin: foreign },
      'another port': { origin: `${origin}:8443`, 'sec-fetch-site': 'same-site' },
      subdomain: { origin: `https://sub.${host}`, 'sec-fetch-site': 'same-site' },
      sandbox: { origin: 'null' },
    };
    const admitted: string[] = [];
    const rejected = new Set<string>();
    for (const [page, marks] of Object.entries(pages)) {
      for (const [name, csrf] of Object.entries(csrfTokens)) {
        const response = await handler(
          new Request(`${origin}/v1/instances`, {
            method: 'POST',
            headers: {
              host,
              cookie: browser.cookie,
              'content-type': 'application/json',
              ...marks,
              ...(csrf !== undefined && { 'x-perdure-csrf': csrf }),
            },
            body: JSON.stringify({ name: 'hello' }),
          }),
        );
        if (response.status === 200) admitted.push(`${page}, ${name}`);
        else rejected.add(`${response.status} ${await codeOf(response)}`);
      }
    }
    expect(admitted).toEqual([
      'own, right',
      'own, without Origin, right',
      'own, without Sec-Fetch-Site, right',
    ]);
    expect([...rejected]).toEqual(['403 FORBIDDEN']);
  });

  it('a form cannot write, even with the CSRF token', async () => {
    const { tokens, signIn } = await openDashboard();
    const browser = await signIn(tokens.admin);
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data']) {
      const response = await browser.send('v1/instances', start({ 'content-type': type }));
      expect([type, response.status]).toEqual([type, 415]);
    }
  });

  it('a POST that only reads needs the CSRF token too', async () => {
    const { tokens, signIn } = await openDashboard();
    const browser = await signIn(tokens.read);
    const body = { ids: ['one'], timeoutMs: 0 };
    const wait = (headers: Record<string, string>): Promise<Response> =>
      browser.send('v1/bulk/wait', { method: 'POST', body, headers });
    expect((await wait({ 'x-perdure-csrf': '' })).status).toBe(403);
    expect((await wait({})).status).toBe(200);
  });

  it('a sign-out without the CSRF token gets 403 and leaves the session', async () => {
    const { tokens, signIn } = await openDashboard();
    const browser = await signIn(tokens.read);
    for (const headers of [{ 'x-perdure-csrf': '' }, { origin: foreign }]) {
      const response = await browser.send('session', { method: 'DELETE', headers });
      expect(response.status).toBe(403);
    }
    expect((await browser.session()).state).toBe('signedIn');
  });

  it('Bearer requests need no CSRF token and no marks of a page', async () => {
    const { tokens, handler } = await openDashboard();
    const headers = { host, authorization: `Bearer ${tokens.operate}` };
    const response = await handler(
      new Request(`${origin}/v1/instances`, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify({ name: 'hello' }),
      }),
    );
    expect(response.status).toBe(200);
  });
});

describe('other origins', () => {
  const page = 'https://app.example.com';

  it('a session cookie is ignored for every origin but the own, also for allowedOrigins', async () => {
    const { tokens, signIn, send } = await openDashboard({ allowedOrigins: [page] });
    const browser = await signIn(tokens.admin);
    const headers = { origin: page, 'sec-fetch-site': 'cross-site' };
    const read = await browser.send('v1/instances', { headers });
    expect([read.status, await codeOf(read)]).toEqual([401, 'UNAUTHENTICATED']);
    expect((await browser.send('v1/instances', start(headers))).status).toBe(401);
    const withToken = { ...headers, authorization: `Bearer ${tokens.read}` };
    expect((await send('v1/instances', { headers: withToken })).status).toBe(200);
  });

  it('/session rejects other origins, and sends them no CORS headers', async () => {
    const { tokens, signIn, send } = await openDashboard({ allowedOrigins: [page] });
    const browser = await signIn(tokens.admin);
    const marks = [
      { origin: page, 'sec-fetch-site': 'cross-site' },
      { origin: foreign },
      { origin: 'null' },
      { 'sec-fetch-site': 'same-site' },
    ];
    for (const headers of marks as Record<string, string>[]) {
      const body = { token: tokens.admin };
      const responses = [
        await browser.send('session', { headers }),
        await send('session', { method: 'POST', body, headers }),
        await browser.send('session', { method: 'DELETE', headers }),
        await send('session', { method: 'OPTIONS', headers }),
      ];
      for (const response of responses) {
        expect(response.status).toBe(403);
        expect(response.headers.has('set-cookie')).toBe(false);
        expect(response.headers.has('access-control-allow-credentials')).toBe(false);
      }
    }
    expect((await browser.session()).state).toBe('signedIn');
  });

  it('an unknown host gets 421 for pages, files, /session and the API', async () => {
    const { send } = await openDashboard();
    const headers = { host: 'rebound.example', accept: 'text/html' };
    for (const path of ['', 'assets/index-1a2b.js', 'session', 'v1/instances']) {
      const response = await send(path, { headers });
      expect([path, response.status, await codeOf(response)]).toEqual([path, 421, 'WRONG_HOST']);
    }
  });

  it('other sites may link to a page, but not load its files', async () => {
    const { send } = await openDashboard();
    const headers = { 'sec-fetch-site': 'cross-site', accept: 'text/html', host };
    expect((await send('', { headers })).status).toBe(200);
    expect((await send('instances/one', { headers })).status).toBe(200);
    expect((await send('assets/index-1a2b.js', { headers })).status).toBe(403);
  });
});

describe('readOnly', () => {
  it('rejects every write of every role with READ_ONLY, by cookie and by token', async () => {
    const { tokens, signIn, send } = await openDashboard({ readOnly: true });
    const browser = await signIn(tokens.admin);
    expect(browser.state.readOnly).toBe(true);
    const authorization = `Bearer ${tokens.admin}`;
    const writes = [
      'v1/instances',
      'v1/instances/one/cancel',
      'v1/bulk/delete',
      'v1/schedules/one',
    ];
    for (const path of writes) {
      for (const response of [
        await browser.send(path, { method: 'POST', body: {} }),
        await send(path, { method: 'POST', body: {}, headers: { authorization } }),
      ]) {
        expect([path, response.status, await codeOf(response)]).toEqual([path, 403, 'READ_ONLY']);
      }
    }
    expect((await browser.send('v1/instances')).status).toBe(200);
    const body = { ids: ['one'], timeoutMs: 0 };
    expect((await browser.send('v1/bulk/wait', { method: 'POST', body })).status).toBe(200);
    expect((await browser.send('session', { method: 'DELETE' })).status).toBe(200);
  });

  it('rejects writes on an open server', async () => {
    const { send } = await openDashboard({ tokens: undefined, insecure: true, readOnly: true });
    const response = await send('v1/instances', { method: 'POST', body: { name: 'x' } });
    expect([response.status, await codeOf(response)]).toEqual([403, 'READ_ONLY']);
  });
});
