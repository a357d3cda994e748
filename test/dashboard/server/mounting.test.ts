import { execFile } from 'node:child_process';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { Perdure } from 'perdure';
import type { SessionState } from 'perdure/dashboard';
import { openSqlite } from 'perdure/sqlite';
import * as staticFiles from '../../../src/dashboard/server/static-files.ts';
import {
  createTokens,
  script,
  serveDashboard,
  writeStaticFiles,
} from './helpers/dashboard-fixture.ts';
import {
  createNextRoute,
  mountInExpress,
  mountInFastify,
  mountInHono,
  serveWithNode,
} from './recipes.ts';

vi.mock(import('../../../src/dashboard/server/static-files.ts'), async (original) => {
  const actual = await original();
  return { ...actual, builtFolder: vi.fn<() => string>() };
});

type Fetch = (path: string, init?: RequestInit) => Promise<Response>;
const host = 'ops.example.com';
const origin = `https://${host}`;
const { tokens, list } = createTokens();

beforeEach(() => {
  vi.mocked(staticFiles.builtFolder).mockReturnValue(writeStaticFiles());
});

async function openEngine(): Promise<Perdure> {
  const perdure = await Perdure.open(await openSqlite({ path: ':memory:' }));
  onTestFinished(() => perdure.close());
  return perdure;
}

/** Returns a function that sends requests over a socket, as a browser behind a proxy with TLS. */
async function fetchFrom(server: Server): Promise<Fetch> {
  if (!server.listening) await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return (path, init) => fetch(`http://127.0.0.1:${port}${path}`, init);
}

/** Signs in, starts an instance, reads it and signs out. */
async function checkSession(send: Fetch, basePath: string): Promise<void> {
  const page = await send(basePath, { headers: { accept: 'text/html' } });
  expect(await page.text()).toContain(`<base href="${basePath}" />`);
  const file = await send(`${basePath}assets/index-1a2b.js`);
  expect(await file.text()).toBe(script);
  const json = { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' };
  const signedIn = await send(`${basePath}session`, {
    method: 'POST',
    headers: json,
    body: JSON.stringify({ token: tokens.operate }),
  });
  expect(signedIn.status).toBe(200);
  const { csrfToken } = (await signedIn.json()) as SessionState;
  const [cookie = ''] = (signedIn.headers.get('set-cookie') ?? '').split(';');
  const headers = { ...json, cookie, 'x-perdure-csrf': csrfToken ?? '' };
  const started = await send(`${basePath}v1/instances`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ name: 'hello', id: 'one' }),
  });
  expect(started.status).toBe(200);
  const read = await send(`${basePath}v1/instances/one?`, { headers: { cookie } });
  expect(await read.json()).toMatchObject({ id: 'one', name: 'hello' });
  const stream = await send(`${basePath}v1/changes`, { headers: { cookie } });
  expect(stream.headers.get('content-type')).toContain('text/event-stream');
  const text = stream.text();
  const left = await send(`${basePath}session`, { method: 'DELETE', headers });
  expect(await left.json()).toMatchObject({ state: 'signedOut' });
  expect(await text).toContain('UNAUTHENTICATED');
}

describe('recipes', () => {
  it('node:http', async () => {
    const listen = vi.spyOn(
      await import('node:net').then(({ Server: Net }) => Net.prototype),
      'listen',
    );
    listen.mockImplementationOnce(function (this: Server) {
      return this.listen(0, '127.0.0.1');
    });
    onTestFinished(() => listen.mockRestore());
    const server = serveWithNode(await openEngine(), list);
    await checkSession(await fetchFrom(server), '/');
  });

  it('Express, which removes the mount path from the URL', async () => {
    let mounted: readonly [string, (incoming: IncomingMessage, outgoing: ServerResponse) => void];
    const use = (...given: typeof mounted): void => void (mounted = given);
    mountInExpress({ use }, await openEngine(), list);
    const server = createServer((incoming, outgoing) => {
      const [path, listener] = mounted;
      const { url = '' } = incoming;
      expect(url.startsWith(path)).toBe(true);
      const stripped = { originalUrl: url, url: url.slice(path.length) || '/' };
      listener(Object.assign(incoming, stripped), outgoing);
    }).listen(0, '127.0.0.1');
    await checkSession(await fetchFrom(server), '/admin/perdure/');
  });

  it('Fastify, which parses bodies unless its parsers are removed', async () => {
    type Handler = Parameters<
      Parameters<Parameters<Parameters<typeof mountInFastify>[0]['register']>[0]>[0]['all']
    >[1];
    const calls: string[] = [];
    let handler: Handler | undefined;
    const scope = {
      removeAllContentTypeParsers: () => calls.push('removeAllContentTypeParsers'),
      addContentTypeParser: (type: string) => calls.push(`addContentTypeParser ${type}`),
      all: (path: string, given: Handler) => {
        calls.push(`all ${path}`);
        handler = given;
      },
    };
    mountInFastify({ register: (plugin) => plugin(scope) }, await openEngine(), list);
    expect(calls).toEqual([
      'removeAllContentTypeParsers',
      'addContentTypeParser *',
      'all /admin/perdure/*',
    ]);
    const server = createServer((incoming, outgoing) => {
      const reply = { raw: outgoing, hijack: vi.fn<() => void>() };
      handler?.({ raw: incoming }, reply);
      expect(reply.hijack).toHaveBeenCalledOnce();
    }).listen(0, '127.0.0.1');
    await checkSession(await fetchFrom(server), '/admin/perdure/');
  });

  it('Hono and Next.js, which pass web-standard requests', async () => {
    const handlers: ((request: Request) => Promise<Response>)[] = [
      createNextRoute(await openEngine(), list),
    ];
    const all: Parameters<typeof mountInHono>[0]['all'] = (path, handler) => {
      expect(path).toBe('/admin/perdure/*');
      handlers.push((raw) => handler({ req: { raw } }));
    };
    mountInHono({ all }, await openEngine(), list);
    expect(handlers).toHaveLength(2);
    for (const handler of handlers) {
      const send: Fetch = (path, init) => {
        const headers = { host, ...(init?.headers as Record<string, string> | undefined) };
        return handler(new Request(origin + path, { ...init, headers }));
      };
      await checkSession(send, '/admin/perdure/');
    }
  });
});

describe('serve with dashboard', () => {
  it('mounts the dashboard at / and leaves the API at /v1', async () => {
    const server = await serveDashboard({ tokens: list });
    await checkSession((path, init) => fetch(server.url + path, init), '/');
    const headers = { authorization: `Bearer ${tokens.read}` };
    expect((await server.fetch('/v1/instances', { headers })).status).toBe(200);
  });

  it('is open on loopback without tokens, but not through a proxy', async () => {
    const { url } = await serveDashboard({ dashboard: { title: 'Shop' } });
    const state = await (await fetch(`${url}/session`)).json();
    expect(state).toMatchObject({ state: 'open', role: 'admin', title: 'Shop' });
    const headers = { 'x-forwarded-for': '203.0.113.7', accept: 'text/html' };
    for (const path of ['/', '/session', '/v1/instances']) {
      expect((await fetch(url + path, { headers })).status).toBe(403);
    }
  });

  it('keeps one server behind both: an unknown host and invalid settings are rejected', async () => {
    await expect(serveDashboard({ dashboard: { titel: 'x' } as never })).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    });
    await expect(serveDashboard({ host: '0.0.0.0' })).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    });
  });

  it('serve without a dashboard returns 404 for its paths', async () => {
    const { url } = await serveDashboard({ dashboard: false });
    for (const path of ['/', '/session', '/assets/index-1a2b.js']) {
      const response = await fetch(url + path, { headers: { accept: 'text/html' } });
      expect([path, response.status]).toEqual([path, 404]);
    }
  });

  it('importing perdure/server loads no module of the dashboard', async () => {
    const root = join(import.meta.dirname, '..', '..', '..');
    const program = `
import { registerHooks } from 'node:module';
const loaded = [];
registerHooks({ load: (url, context, next) => (loaded.push(url), next(url, context)) });
await import(${JSON.stringify(join(root, 'src', 'server.ts'))});
console.log(loaded.filter((url) => url.includes('/src/server/')).length > 10);
console.log(loaded.filter((url) => url.includes('/dashboard/')).length);`;
    const args = ['--input-type=module', '--eval', program];
    const { stdout } = await promisify(execFile)(process.execPath, args);
    expect(stdout).toBe('true\n0\n');
  });
});
