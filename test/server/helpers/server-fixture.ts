import { describe, onTestFinished } from 'vitest';
import type { FlowDefinition } from 'perdure/flows';
import { Perdure, type StartWorkerOptions } from 'perdure';
import { createToken, serve, type PerdureServer, type ServeOptions } from 'perdure/server';
import {
  writePath,
  type ResponseOf,
  type RequestOf,
  type Role,
  type PathParams,
} from '../../../src/server/routes/route.ts';
import { routes, type RouteName, type Routes } from '../../../src/server/routes/table.ts';
import { engineStores, type EngineStore, type StoreKind } from '../../engine/engine-store.ts';

/** A response with its body. */
export interface TestResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly json: unknown;
}

/** A server on its own store, with a token for each role. */
export interface TestServer {
  readonly perdure: Perdure;
  readonly server: PerdureServer;
  readonly url: string;
  readonly tokens: Readonly<Record<Role, string>>;
  /** Sends a request as admin and validates the response. Throws for any status but 200. */
  readonly ask: <Name extends RouteName>(
    name: Name,
    request: RequestOf<Routes[Name]>,
  ) => Promise<ResponseOf<Routes[Name]>>;
  /** Sends a request to a route and returns any response. */
  readonly send: (name: RouteName, request: Parts, as?: Sender) => Promise<TestResponse>;
  /** Sends a request to any path. */
  readonly fetch: (path: string, init?: RequestInit) => Promise<TestResponse>;
}

/** The parts of a request, valid or not. */
export interface Parts {
  readonly params?: PathParams;
  readonly query?: Readonly<Record<string, unknown>>;
  readonly body?: unknown;
}

/** Credentials and settings of a request. */
interface Sender {
  readonly token?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

export interface TestServerOptions extends Omit<ServeOptions, 'flows'> {
  readonly worker?: StartWorkerOptions;
  readonly flows?: readonly FlowDefinition[];
}

export const allRoles = ['read', 'operate', 'admin'] as const satisfies readonly Role[];

/** Registers a suite for each store. */
export function describeServer(
  title: string,
  suite: (open: (options?: TestServerOptions) => Promise<TestServer>) => void,
): void {
  for (const kind of ['SQLite', 'PostgreSQL'] as const satisfies readonly StoreKind[]) {
    describe(`${title}, on ${kind}`, () => {
      const stores = engineStores(kind);
      suite(async (options) => startServer(await stores(), options));
    });
  }
}

/** Opens a server on SQLite, for tests that do not depend on the store. */
export function openServer(options?: TestServerOptions): Promise<TestServer> {
  return engineStores('SQLite')().then((store) => startServer(store, options));
}

async function startServer(
  store: EngineStore,
  { worker, ...options }: TestServerOptions = {},
): Promise<TestServer> {
  const perdure = await Perdure.open(await store.open());
  onTestFinished(async () => {
    await perdure.close();
    await store.remove();
  });
  if (worker !== undefined) await perdure.startWorker({ shutdownGrace: 100, ...worker });
  return serveOn(perdure, options);
}

/** Starts a server for an open engine, which the caller closes. */
export async function serveOn(
  perdure: Perdure,
  options: Omit<TestServerOptions, 'worker'> = {},
): Promise<TestServer> {
  const made = Object.fromEntries(allRoles.map((role) => [role, createToken()]));
  const tokens = allRoles.map((role) => ({
    name: `${role} token`,
    role,
    sha256: made[role]?.sha256 ?? '',
  }));
  const server = await serve(perdure, { port: 0, tokens, ...options });
  onTestFinished(() => server.close());
  const plain = Object.fromEntries(allRoles.map((role) => [role, made[role]?.token ?? '']));
  return toTestServer(perdure, server, plain as Record<Role, string>);
}

function toTestServer(
  perdure: Perdure,
  server: PerdureServer,
  tokens: Readonly<Record<Role, string>>,
): TestServer {
  const { url } = server;
  const request = async (path: string, init?: RequestInit): Promise<TestResponse> => {
    const response = await fetch(url + path, init);
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, json: tryParse(text) };
  };
  const send: TestServer['send'] = (name, parts, as = {}) => {
    const shape = routes[name];
    const { token = tokens.admin, headers = {}, signal } = as;
    const isPost = shape.method === 'POST';
    return request(writePath(shape.path, parts.params) + toSearch(parts.query), {
      method: shape.method,
      headers: {
        ...(token !== '' && { authorization: `Bearer ${token}` }),
        ...(isPost && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(isPost && { body: JSON.stringify(parts.body ?? {}) }),
      ...(signal !== undefined && { signal }),
    });
  };
  return {
    perdure,
    server,
    url,
    tokens,
    send,
    fetch: request,
    async ask(name, parts) {
      const { status, json, text } = await send(name, parts as Parts);
      if (status !== 200) throw new Error(`${name} answered ${status}: ${text}`);
      const shape = routes[name];
      return ('response' in shape ? shape.response.parse(json) : text) as never;
    },
  };
}

function toSearch(query: Readonly<Record<string, unknown>> = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? (value as readonly unknown[]) : [value]) {
      search.append(name, String(one));
    }
  }
  return search.size === 0 ? '' : `?${search.toString()}`;
}

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns the error code of a response. */
export function codeOf({ json }: TestResponse): string | undefined {
  return (json as { readonly error?: { readonly code: string } } | undefined)?.error?.code;
}
