import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';
import { Perdure } from 'perdure';
import type { DashboardOptions, SessionState } from 'perdure/dashboard';
import {
  createToken,
  type RequestHandler,
  type Role,
  type ServerToken,
  type ServeOptions,
} from 'perdure/server';
import { openSqlite } from 'perdure/sqlite';
import { dashboardFrom } from '../../../../src/dashboard/server/dashboard.ts';
import { serveFrom } from '../../../../src/server/serve.ts';
import type { TestServer } from '../../../server/helpers/server-fixture.ts';

const page =
  '<!doctype html><html><head><title>Perdure</title></head><body><div id="app"></div></body></html>';
export const script = `export const rows = ${JSON.stringify(Array.from({ length: 500 }, (_, row) => row))};`;

/** Content of a file beside the folder of static files. */
export const secret = 'must not be served';

/** The files of a built dashboard, as small as possible. */
const files: Readonly<Record<string, string>> = {
  'index.html': page,
  'favicon.svg': '<svg xmlns="http://www.w3.org/2000/svg"/>',
  'assets/index-1a2b.js': script,
  'assets/index-1a2b.css': 'body { margin: 0 }',
  '.vite/manifest.json': '{}',
};

/** Writes the files into a folder and deletes it after the test. */
export function writeStaticFiles(given = files): string {
  const root = mkdtempSync(join(tmpdir(), 'perdure-static-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const folder = join(root, 'static');
  for (const [name, text] of Object.entries(given)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  // Beside the folder, so that a traversal would find it.
  writeFileSync(join(root, 'secret.txt'), secret);
  return folder;
}

export type Roles = Readonly<Record<Role, string>>;

/** Creates a token for each role. */
export function createTokens(): { readonly tokens: Roles; readonly list: readonly ServerToken[] } {
  const roles = ['read', 'operate', 'admin'] as const;
  const made = roles.map((role) => ({ role, ...createToken() }));
  const list = made.map(({ role, sha256 }) => ({ name: `${role} token`, role, sha256 }));
  const tokens = Object.fromEntries(made.map(({ role, token }) => [role, token]));
  return { tokens: tokens as Roles, list };
}

/** A handler with a dashboard, called without a network. */
export interface TestDashboard {
  readonly perdure: Perdure;
  readonly handler: RequestHandler;
  readonly tokens: Roles;
  /** Sends a request as a page of the dashboard would. */
  readonly send: (path: string, init?: SendInit) => Promise<Response>;
  /** Signs in and returns a browser that sends the cookie and the CSRF token. */
  readonly signIn: (token: string) => Promise<TestBrowser>;
}

export interface SendInit {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly signal?: AbortSignal;
}

interface TestBrowser {
  readonly cookie: string;
  readonly state: SessionState;
  readonly send: TestDashboard['send'];
  readonly session: () => Promise<SessionState>;
}

export const host = 'dash.example.com';
export const origin = `https://${host}`;

/** Opens a dashboard on SQLite. */
export async function openDashboard(options: DashboardOptions = {}): Promise<TestDashboard> {
  const perdure = await Perdure.open(await openSqlite({ path: ':memory:' }));
  onTestFinished(() => perdure.close());
  const { tokens, list } = createTokens();
  const handler = dashboardFrom(
    perdure,
    { tokens: list, allowedHosts: [host], ...options },
    writeStaticFiles(),
  );
  onTestFinished(() => handler.close());
  const { basePath = '/' } = options;
  const send: TestDashboard['send'] = (path, { method = 'GET', headers, body, signal } = {}) => {
    const url = path.startsWith('/') ? path : basePath + path;
    const isWrite = method !== 'GET' && method !== 'HEAD';
    return handler(
      new Request(origin + url, {
        method,
        headers: {
          host,
          ...(isWrite && { origin, 'sec-fetch-site': 'same-origin' }),
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        ...(signal !== undefined && { signal }),
      }),
      { remoteAddress: '203.0.113.7' },
    );
  };
  const signIn: TestDashboard['signIn'] = async (token) => {
    const response = await send('session', { method: 'POST', body: { token } });
    if (response.status !== 200) throw new Error(`sign-in returned ${response.status}`);
    const state = (await response.json()) as SessionState;
    const [cookie = ''] = (response.headers.get('set-cookie') ?? '').split(';');
    const sendAs: TestDashboard['send'] = (path, init = {}) =>
      send(path, {
        ...init,
        headers: { cookie, 'x-perdure-csrf': state.csrfToken ?? '', ...init.headers },
      });
    const session = async (): Promise<SessionState> =>
      (await (await sendAs('session')).json()) as SessionState;
    return { cookie, state, send: sendAs, session };
  };
  return { perdure, handler, tokens, send, signIn };
}

/** Starts a server with a dashboard for an open engine. */
export async function serveDashboard(
  options: ServeOptions = {},
): Promise<Pick<TestServer, 'url' | 'fetch' | 'perdure'>> {
  const perdure = await Perdure.open(await openSqlite({ path: ':memory:' }));
  onTestFinished(() => perdure.close());
  const server = await serveFrom(
    perdure,
    { port: 0, dashboard: true, ...options },
    writeStaticFiles(),
  );
  onTestFinished(() => server.close());
  const { url } = server;
  return {
    perdure,
    url,
    async fetch(path, init) {
      const response = await fetch(url + path, init);
      const text = await response.text();
      return { status: response.status, headers: response.headers, text, json: undefined };
    },
  };
}

/** Returns the error code of a response. */
export async function codeOf(response: Response): Promise<string | undefined> {
  const body = (await response.json()) as { readonly error?: { readonly code: string } };
  return body.error?.code;
}
