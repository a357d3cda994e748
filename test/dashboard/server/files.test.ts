import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { dashboard } from 'perdure/dashboard';
import { exchange } from '../../server/helpers/raw-socket.ts';
import { securityHeaders } from '../../../src/dashboard/server/security-headers.ts';
import { StaticFiles } from '../../../src/dashboard/server/static-files.ts';
import {
  codeOf,
  createTokens,
  openDashboard,
  script,
  secret,
  serveDashboard,
  writeStaticFiles,
} from './helpers/dashboard-fixture.ts';

const html = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };
const asset = 'assets/index-1a2b.js';

describe.each(['/', '/a/b/'])('a dashboard at %s', (basePath) => {
  it('serves the page with its base, and files with their types', async () => {
    const { send } = await openDashboard({ basePath });
    const index = await send('', { headers: html });
    expect(index.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(index.headers.get('cache-control')).toBe('no-cache');
    expect(await index.text()).toContain(`<head><base href="${basePath}" /><title>`);
    const file = await send(asset);
    expect(file.headers.get('content-type')).toBe('text/javascript; charset=utf-8');
    expect(file.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
    expect(await file.text()).toBe(script);
    const icon = await send('favicon.svg');
    expect([icon.status, icon.headers.get('content-type')]).toEqual([200, 'image/svg+xml']);
  });

  it('serves the page for every path of a GET or HEAD that accepts HTML, and for no other', async () => {
    const { send } = await openDashboard({ basePath });
    const paths = [
      '',
      'instances',
      'instances/order-1.2',
      'flows/a%2Fb',
      'x?tab=raw',
      '%F0%9F%92%A9',
    ];
    for (const path of paths) {
      expect([path, (await send(path, { headers: html })).status]).toEqual([path, 200]);
      for (const headers of [{}, { accept: '*/*' }, { accept: 'application/json' }]) {
        const response = await send(path, { headers });
        expect([path, response.status]).toEqual([path, 404]);
      }
      const posted = await send(path, { method: 'POST', body: {}, headers: html });
      expect([posted.status, posted.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
    }
    // Not the page: a missing file, the API and the session.
    for (const path of ['assets/missing.js', 'assets/', 'v1', 'v1/', 'v1/nothing', 'session/x']) {
      const response = await send(path, { headers: html });
      expect([path, response.status, await codeOf(response)]).toEqual([path, 404, 'NO_SUCH_ROUTE']);
    }
  });

  it('HEAD returns the headers of GET without a body', async () => {
    const { send } = await openDashboard({ basePath });
    for (const path of ['', asset]) {
      const [get, head] = [
        await send(path, { headers: html }),
        await send(path, { method: 'HEAD', headers: html }),
      ];
      const namesOf = (response: Response): unknown =>
        [...response.headers].filter(([name]) => name !== 'x-request-id');
      expect([head.status, namesOf(head)]).toEqual([200, namesOf(get)]);
      expect(await head.text()).toBe('');
      expect(head.headers.get('content-length')).toBe(String((await get.arrayBuffer()).byteLength));
    }
  });

  it('every response has the security headers', async () => {
    const { send, tokens, signIn, handler } = await openDashboard({ basePath });
    const browser = await signIn(tokens.read);
    const etag = (await send(asset)).headers.get('etag') ?? '';
    const caller = new AbortController();
    const responses: Record<string, Response> = {
      page: await send('', { headers: html }),
      file: await send(asset),
      'not modified': await send(asset, { headers: { 'if-none-match': etag } }),
      'not found': await send('nothing.js'),
      'wrong method': await send('', { method: 'POST', body: {} }),
      session: await send('session'),
      'wrong token': await send('session', { method: 'POST', body: { token: 'x' } }),
      'wrong origin': await send('session', { headers: { origin: 'https://evil.example' } }),
      'wrong host': await send('', { headers: { host: 'evil.example' } }),
      API: await browser.send('v1/instances'),
      'API without a session': await send('v1/instances'),
      'API without a right': await browser.send('v1/instances', { method: 'POST', body: {} }),
      'unknown route': await browser.send('v1/nothing'),
      stream: await browser.send('v1/changes', { signal: caller.signal }),
    };
    caller.abort();
    handler.close();
    responses['closed'] = await send('', { headers: html });
    for (const [kind, { headers }] of Object.entries(responses)) {
      const policy = headers.get('content-security-policy') ?? '';
      expect([kind, policy.includes("default-src 'none'")]).toEqual([kind, true]);
      expect([kind, policy.includes("frame-ancestors 'none'")]).toEqual([kind, true]);
      for (const [name, value] of Object.entries(securityHeaders)) {
        if (name === 'content-security-policy') continue;
        expect([kind, name, headers.get(name)]).toEqual([kind, name, value]);
      }
      expect([kind, headers.get('x-request-id')?.length]).toEqual([kind, 22]);
      expect(headers.has('x-powered-by')).toBe(false);
    }
    expect(responses['closed']?.status).toBe(503);
    expect(responses['page']?.headers.get('content-security-policy')).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'self'; require-trusted-types-for 'script'; trusted-types 'none'",
    );
  });
});

describe('caching and compression', () => {
  it('If-None-Match with a current tag returns 304, in any encoding', async () => {
    const { send } = await openDashboard();
    const tag = (await send(asset)).headers.get('etag') ?? '';
    const compressed = await send(asset, { headers: { 'accept-encoding': 'br' } });
    const brotliTag = compressed.headers.get('etag') ?? '';
    expect(tag).toMatch(/^"[\w-]{27}"$/);
    expect(brotliTag).toBe(`${tag.slice(0, -1)}-br"`);
    for (const condition of [tag, brotliTag, `W/${tag}`, `"other", ${tag}`, '*']) {
      const response = await send(asset, { headers: { 'if-none-match': condition } });
      expect([condition, response.status]).toEqual([condition, 304]);
      expect(response.headers.get('etag')).toBe(tag);
      expect(response.headers.has('content-length')).toBe(false);
      expect(await response.text()).toBe('');
    }
    for (const condition of ['"other"', 'x', '', `${tag.slice(0, -2)}"`]) {
      const response = await send(asset, { headers: { 'if-none-match': condition } });
      expect([condition, response.status]).toEqual([condition, 200]);
    }
  });

  it('the page of another base path has another tag', async () => {
    const [one, other] = [await openDashboard(), await openDashboard({ basePath: '/a/' })];
    const tags = [await one.send('', { headers: html }), await other.send('', { headers: html })];
    expect(new Set(tags.map(({ headers }) => headers.get('etag'))).size).toBe(2);
  });

  it('files are compressed in the best encoding that the client accepts', async () => {
    const { send } = await openDashboard();
    const cases: readonly (readonly [string, string | null])[] = [
      ['gzip, deflate, br, zstd', 'br'],
      ['gzip', 'gzip'],
      ['br;q=0, gzip', 'gzip'],
      ['br;q=0.0, gzip;q=0', null],
      ['GZIP;q=0.5', 'gzip'],
      ['identity', null],
      ['brotli', null],
      ['', null],
    ];
    for (const [accepted, wanted] of cases) {
      const response = await send(asset, { headers: { 'accept-encoding': accepted } });
      const bytes = Buffer.from(await response.arrayBuffer());
      expect([accepted, response.headers.get('content-encoding')]).toEqual([accepted, wanted]);
      expect(response.headers.get('vary')).toBe('accept-encoding');
      expect(response.headers.get('content-length')).toBe(String(bytes.byteLength));
      const plain =
        wanted === 'br'
          ? brotliDecompressSync(bytes)
          : wanted === 'gzip'
            ? gunzipSync(bytes)
            : bytes;
      expect(plain.toString()).toBe(script);
      if (wanted !== null) expect(bytes.byteLength).toBeLessThan(script.length);
    }
    // Too small to be worth it.
    const small = await send('assets/index-1a2b.css', { headers: { 'accept-encoding': 'br' } });
    expect(small.headers.has('content-encoding')).toBe(false);
  });
});

describe('hostile paths', () => {
  it('no path reads a file outside of the folder, or a hidden one', async () => {
    const { send } = await openDashboard();
    const up = ['..', '%2e%2e', '.%2e', '..%2f', '..%5c', '..\\', '....//', '%252e%252e', '..;'];
    const paths = [
      ...up.flatMap((one) => [`/${one}/secret.txt`, `/assets/${one}/${one}/secret.txt`]),
      '/..%2fsecret.txt',
      '/%2e%2e%2fsecret.txt',
      '/.vite/manifest.json',
      '/assets/%00.js',
      '/constructor',
      '/__proto__',
      '/index.html/',
      '//evil.example/',
      '//assets/index-1a2b.js',
      '/\\evil.example',
      '/assets//index-1a2b.js',
      '/ASSETS/index-1a2b.js',
    ];
    for (const path of paths) {
      const response = await send(path);
      const text = await response.text();
      expect([path, response.status]).toEqual([path, 404]);
      expect(text).not.toContain(secret);
      expect(response.headers.has('location')).toBe(false);
    }
  });

  it('hostile request targets on a real socket return 400 or 404 and no redirect', async () => {
    const { url } = await serveDashboard();
    const port = Number(new URL(url).port);
    const targets = [
      '/../secret.txt',
      '/..%2fsecret.txt',
      '/assets/../../secret.txt',
      '//evil.example/%2f..',
      '/\\evil.example',
      'http://evil.example/',
      '*',
    ];
    for (const target of targets) {
      const head = `GET ${target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`;
      const answer = await exchange(port, head);
      expect([target, /^HTTP\/1\.1 (400|404)/.test(answer)]).toEqual([target, true]);
      expect(answer.toLowerCase()).not.toContain('location:');
      expect(answer).not.toContain(secret);
    }
    const traced = await exchange(
      port,
      'TRACE / HTTP/1.1\r\nhost: localhost\r\naccept: text/html\r\nconnection: close\r\n\r\n',
    );
    expect(traced).toMatch(/^HTTP\/1\.1 405/);
  });

  it('paths outside of the base path return 404; the base without its slash is the page', async () => {
    const { send } = await openDashboard({ basePath: '/a/b/' });
    for (const path of ['/', '/a/', '/a/bc', '/a/b-/', '/v1/instances', '/session', `/${asset}`]) {
      const response = await send(path, { headers: html });
      expect([path, response.status]).toEqual([path, 404]);
    }
    const response = await send('/a/b?x=//evil.example', { headers: html });
    expect(await response.text()).toContain('<base href="/a/b/" />');
  });
});

describe('the build', () => {
  it('a missing build throws DASHBOARD_NOT_BUILT with the folder', () => {
    const folder = join(writeStaticFiles({ 'assets/x.js': '' }));
    expect(() => new StaticFiles(folder, '/')).toThrow(
      expect.objectContaining({ code: 'DASHBOARD_NOT_BUILT' }) as Error,
    );
    expect(() => new StaticFiles(folder, '/')).toThrow(folder);
  });

  it('a base element of the page is replaced', async () => {
    const folder = writeStaticFiles({
      'index.html': '<html><head><base href="/dev/"></head></html>',
    });
    const files = new StaticFiles(folder, '/a/');
    const text = await (await files.respondWithPage(new Headers())).text();
    expect(text).toBe('<html><head><base href="/a/" /></head></html>');
  });
});

describe('options', () => {
  it('invalid options throw INVALID_OPTION', async () => {
    const { perdure } = await openDashboard();
    const { list } = createTokens();
    const link = (href: unknown): object => ({ links: [{ label: 'x', href }] });
    const bad: readonly object[] = [
      { basePath: 'a' },
      { basePath: '/a' },
      { basePath: '//' },
      { basePath: '/../' },
      { basePath: '/a"b/' },
      { title: '' },
      { title: 'x'.repeat(101) },
      { environment: 1 },
      { readOnly: 'yes' },
      { sessionIdle: 0 },
      { sessionMaxAge: '-1h' },
      { links: 'x' },
      { links: [{ label: 'x' }] },
      link('javascript:alert(1)'),
      link('//evil.example/{id}'),
      link('https://{name}.example.com/'),
      link('https://user@example.com/'),
      link('ftp://example.com/'),
      { readonly: true },
      { tokens: undefined },
    ];
    for (const options of bad) {
      expect(() => dashboard(perdure, { tokens: list, ...options })).toThrow(
        expect.objectContaining({ code: expect.stringMatching(/^INVALID_/) as string }) as Error,
      );
    }
  });
});
