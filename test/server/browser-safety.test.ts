import { describe, expect, it, onTestFinished } from 'vitest';
import { Perdure, type Provider } from 'perdure';
import { serve } from 'perdure/server';
import { openSqlite } from 'perdure/sqlite';
import { writePath, type RouteShape } from '../../src/server/routes/route.ts';
import { routes, type RouteName } from '../../src/server/routes/table.ts';
import { codeOf, openServer } from './helpers/server-fixture.ts';

const page = 'https://app.example.com';

describe('cross-origin requests', () => {
  it('cross-origin requests get 403 and no CORS headers by default', async () => {
    const { fetch, tokens, send } = await openServer();
    const preflight = await fetch('/v1/instances', {
      method: 'OPTIONS',
      headers: { origin: page, 'access-control-request-method': 'POST' },
    });
    expect(preflight.status).toBe(403);
    const asked = [
      { origin: page },
      { origin: 'null' },
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
    ];
    for (const headers of asked) {
      for (const route of ['startInstance', 'listInstances'] as const) {
        const answer = await send(route, { body: { name: 'x' } }, { token: tokens.admin, headers });
        expect([answer.status, codeOf(answer)]).toEqual([403, 'FORBIDDEN']);
        const names = [...answer.headers.keys()];
        expect(names.filter((name) => name.startsWith('access-control'))).toEqual([]);
      }
    }
  });

  it('a rejected cross-origin request names allowedOrigins and the missing origin', async () => {
    const { send, fetch } = await openServer();
    const refused = [
      await send('health', {}, { headers: { origin: page } }),
      await fetch('/v1/instances', { method: 'OPTIONS', headers: { origin: page } }),
    ];
    for (const { status, json } of refused) {
      expect(status).toBe(403);
      const { message } = (json as { error: { message: string } }).error;
      expect(message).toContain('allowedOrigins');
      expect(message).toContain(page);
    }
    // The response does not grow with a value from the caller.
    const origin = `https://${'x'.repeat(5_000)}.example`;
    expect((await send('health', {}, { headers: { origin } })).text.length).toBeLessThan(1_000);
  });

  it('an origin in allowedOrigins gets CORS headers, and other origins get 403', async () => {
    const { send, fetch, tokens, url } = await openServer({ allowedOrigins: [page] });
    const headers = { origin: page, 'sec-fetch-site': 'cross-site' };
    const answer = await send('health', {}, { token: tokens.read, headers });
    expect([answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([200, page]);
    expect(answer.headers.get('vary')).toBe('origin');
    const preflight = await fetch('/v1/instances', {
      method: 'OPTIONS',
      headers: { origin: page, 'access-control-request-method': 'POST' },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get('access-control-allow-headers')).toBe(
      'authorization, content-type, traceparent, tracestate',
    );
    const other = await send('health', {}, { headers: { origin: 'https://evil.example' } });
    expect([other.status, other.headers.get('access-control-allow-origin')]).toEqual([403, null]);
    const own = { origin: url, 'sec-fetch-site': 'same-origin' };
    expect((await send('health', {}, { headers: own })).status).toBe(200);
  });

  it('a POST with a content type other than JSON returns 415', async () => {
    const { fetch, tokens } = await openServer();
    const types = [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/json-patch+json',
      'text/plain; application/json',
      'application/json; charset=latin1',
    ];
    for (const type of types) {
      const answer = await fetch('/v1/instances', {
        method: 'POST',
        headers: { authorization: `Bearer ${tokens.admin}`, 'content-type': type },
        body: '{"name":"x"}',
      });
      expect([type, answer.status, codeOf(answer)]).toEqual([type, 415, 'NOT_JSON']);
    }
  });

  it('every response has headers against framing, sniffing, caching and referrers', async () => {
    const { fetch } = await openServer();
    for (const path of ['/v1/health', '/v1/queues', '/nothing']) {
      const { headers } = await fetch(path);
      expect(headers.get('content-security-policy')).toContain("default-src 'none'");
      expect(headers.get('x-content-type-options')).toBe('nosniff');
      expect(headers.get('referrer-policy')).toBe('no-referrer');
      expect(headers.get('cache-control')).toBe('no-store');
      expect(headers.get('content-type')).toBe('application/json; charset=utf-8');
      expect(headers.get('x-request-id')).toMatch(/^[\w-]{22}$/);
      expect(headers.has('x-powered-by')).toBe(false);
    }
  });
});

describe('GET routes', () => {
  it('a GET request calls only reading methods of the store', async () => {
    const asked = new Set<string>();
    const store = await openSqlite({ path: ':memory:' });
    const watched = new Proxy(store, {
      get(target, name: keyof Provider) {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]) => {
          asked.add(name);
          return (value as (...given: unknown[]) => unknown).apply(target, args);
        };
      },
    });
    const perdure = await Perdure.open(watched);
    onTestFinished(() => perdure.close());
    const server = await serve(perdure, { port: 0 });
    onTestFinished(() => server.close());
    await perdure.client.start('hello', 1, { id: 'one' });
    await perdure.client.openSession({ label: 'one' });
    asked.clear();
    const reads = (Object.entries<RouteShape>(routes) as [RouteName, RouteShape][]).filter(
      ([, { method }]) => method === 'GET',
    );
    for (const [, { path, as, waits }] of reads) {
      const address = writePath(path, { id: 'one', name: 'one', jobId: 'one' });
      const url = server.url + address + (waits === true ? '?timeoutMs=0' : '');
      const signal = AbortSignal.timeout(as === 'events' ? 200 : 10_000);
      const response = await fetch(url, { signal });
      // A stream lasts until it is aborted.
      await response.text().catch(() => undefined);
    }
    // Any worker settles sessions at any time; a read only triggers it earlier.
    const allowed =
      /^(get|list|read|count|find|inspect|measure|hints|queueDepths|definitionQueues|systemMetrics|settleSession|renewSessions)/;
    expect([...asked].filter((name) => !allowed.test(name))).toEqual([]);
    expect(asked.size).toBeGreaterThan(8);
  });
});
