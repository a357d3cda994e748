import { execFile } from 'node:child_process';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import express from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
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

/** Returns a function that calls a web-standard handler, as a server behind a proxy with TLS does. */
function sendTo(handler: (request: Request) => Response | Promise<Response>): Fetch {
  return async (path, init) => {
    const headers = { host, ...(init?.headers as Record<string, string> | undefined) };
    return await handler(new Request(origin + path, { ...init, headers }));
  };
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
  // The stream of the visible rows of a list: it sends the state first, then each change.
  const stream = await send(`${basePath}v1/changes`, {
    method: 'POST',
    headers: { ...headers, accept: 'text/event-stream' },
    body: JSON.stringify({ ids: ['one'] }),
  });
  expect(stream.headers.get('content-type')).toContain('text/event-stream');
  const text = readStream(stream);
  await text.until('"pending"');
  const stopped = await send(`${basePath}v1/instances/one/terminate`, {
    method: 'POST',
    headers,
    body: '{}',
  });
  expect(stopped.status).toBe(200);
  await text.until('"terminated"');
  const left = await send(`${basePath}session`, { method: 'DELETE', headers });
  expect(await left.json()).toMatchObject({ state: 'signedOut' });
  await text.until('UNAUTHENTICATED');
}

/** Reads a stream in parts, so that a server that buffers it fails the test. */
function readStream({ body }: Response): { readonly until: (text: string) => Promise<void> } {
  const reader = body?.pipeThrough(new TextDecoderStream()).getReader();
  let received = '';
  return {
    async until(text) {
      while (!received.includes(text)) {
        const part = await reader?.read();
        if (part === undefined || part.done) throw new Error(`Ended before ${text}: ${received}`);
        received += part.value;
      }
    },
  };
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

  it('Express, with a body parser after the dashboard', async () => {
    const app = express();
    mountInExpress(app, await openEngine(), list);
    app.use(express.json());
    app.use('/', (_incoming, outgoing) => void outgoing.writeHead(418).end('the host'));
    const send = await fetchFrom(createServer(app).listen(0, '127.0.0.1'));
    await checkSession(send, '/admin/perdure/');
    expect((await send('/admin/other')).status).toBe(418);
  });

  it('Fastify, whose other routes keep their body parsers', async () => {
    const app = fastify();
    onTestFinished(() => app.close());
    mountInFastify(app, await openEngine(), list);
    app.post('/echo', (request) => request.body);
    await app.listen({ port: 0, host: '127.0.0.1' });
    const send = await fetchFrom(app.server);
    await checkSession(send, '/admin/perdure/');
    const echoed = await send('/echo', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"a":1}',
    });
    expect(await echoed.json()).toEqual({ a: 1 });
  });

  it('Hono', async () => {
    const app = new Hono();
    mountInHono(app, await openEngine(), list);
    app.all('*', (context) => context.text('the host', 418));
    await checkSession(
      sendTo((request) => app.fetch(request)),
      '/admin/perdure/',
    );
    expect((await app.request('/admin/other')).status).toBe(418);
  });

  it('a route handler of Next.js, which is called with a request and its parameters', async () => {
    type Route = (
      request: Request,
      context: { readonly params: Promise<{ readonly path?: readonly string[] }> },
    ) => Promise<Response>;
    const route: Route = createNextRoute(await openEngine(), list);
    await checkSession(
      sendTo((request) => {
        const path = new URL(request.url).pathname.split('/').slice(3).filter(Boolean);
        return route(request, { params: Promise.resolve(path.length === 0 ? {} : { path }) });
      }),
      '/admin/perdure/',
    );
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
