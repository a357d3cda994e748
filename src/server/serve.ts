import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { LocalClient } from '../client/local-client.ts';
import type { DashboardSettings } from '../dashboard/server/options.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { invalidOption, readFields } from '../model/option-fields.ts';
import { Connections } from './http/connections.ts';
import {
  makeHandler,
  handlerOptionNames,
  hasAuthentication,
  readHandlerOptions,
  type CheckedOptions,
  type RequestHandler,
  type HandlerOptions,
} from './handler.ts';
import type { ServerLimits } from './limits/limits.ts';
import { sendResponse, toWebRequest } from './http/node-exchange.ts';
import { isLoopback } from './access/origin-check.ts';

/** Options of `serve`: the address, and the options of a handler. */
export interface ServeOptions extends HandlerOptions {
  /** Address to listen on. Default: `127.0.0.1` and `::1`. Other addresses require authentication. */
  readonly host?: string | undefined;
  /** Default: 7373. 0 chooses a free port. */
  readonly port?: number | undefined;
  /** Serves the dashboard at `/`, beside the API. Default: false. */
  readonly dashboard?: boolean | DashboardSettings | undefined;
}

const defaultPort = 7373;
const maxHeaderBytes = 16 * 1024;
const keepAliveMs = 60_000;
// After this time close() drops connections whose client does not read its last response.
const closeGraceMs = 5_000;
const wildcards: readonly string[] = ['0.0.0.0', '::', ''];

interface Listener {
  readonly server: Server;
  readonly connections: Connections;
}

/** A listening server. */
export class PerdureServer {
  /** Base URL of the server from this machine. */
  readonly url: string;
  readonly port: number;
  readonly #listeners: readonly Listener[];
  readonly #handler: RequestHandler;
  #closed: Promise<void> | undefined;

  constructor(listeners: readonly [Listener, ...Listener[]], handler: RequestHandler) {
    const { address, family, port } = listeners[0].server.address() as AddressInfo;
    const host = wildcards.includes(address) ? '127.0.0.1' : address;
    this.url = `http://${family === 'IPv6' && host === address ? `[${host}]` : host}:${port}`;
    this.port = port;
    this.#listeners = listeners;
    this.#handler = handler;
  }

  /** Stops listening, ends streams and waits, and waits for other requests. The store stays open. Idempotent. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #close(): Promise<void> {
    const closed = this.#listeners.map(closeListener);
    this.#handler.close();
    await Promise.all(closed);
  }
}

/** Serves the HTTP API of a store. Resolves once the server listens. */
export function serve(
  perdure: { readonly client: LocalClient },
  options: ServeOptions = {},
): Promise<PerdureServer> {
  return serveFrom(perdure, options, undefined);
}

/** Like `serve`, with the files of the dashboard from another folder. */
export async function serveFrom(
  { client }: { readonly client: LocalClient },
  options: ServeOptions,
  folder: string | undefined,
): Promise<PerdureServer> {
  readFields(options, 'serve()', ['host', 'port', 'dashboard', ...handlerOptionNames]);
  const { host, port = defaultPort, dashboard = false, ...rest } = options;
  if (!Number.isSafeInteger(port) || port < 0 || port > 65_535) {
    throw invalidOption('port', port, 'an integer from 0 to 65535');
  }
  const given = { client, options: checkExposure(host, rest), isLocal: isLocal(host) };
  const { handler, checked } =
    dashboard === false
      ? makeApi(given)
      : await loadDashboard({ ...given, folder }, dashboard === true ? {} : dashboard);
  await checked.authentication?.start();
  const { limits } = checked;
  const listen = (address: string, at: number): Promise<Listener> =>
    listenOn(makeListener(handler, limits), { host: address, port: at });
  if (host !== undefined) return new PerdureServer([await listen(host, port)], handler);
  return new PerdureServer(await listenLocally(listen, port), handler);
}

interface HandlerParams {
  readonly client: LocalClient;
  readonly options: HandlerOptions;
  readonly isLocal: boolean;
}

interface CheckedHandler {
  readonly handler: RequestHandler;
  readonly checked: CheckedOptions;
}

function makeApi({ client, options, isLocal }: HandlerParams): CheckedHandler {
  const checked = readHandlerOptions(options, { isLocal, where: 'serve()' });
  return { handler: makeHandler(client, checked), checked };
}

/** Loads the dashboard. A server without one never imports its modules. */
async function loadDashboard(
  params: HandlerParams & { readonly folder: string | undefined },
  settings: DashboardSettings,
): Promise<CheckedHandler> {
  const [{ makeDashboard }, { readSettings }] = await Promise.all([
    import('../dashboard/server/dashboard-handler.ts'),
    import('../dashboard/server/options.ts'),
  ]);
  const checkedSettings = readSettings(settings, '`dashboard` of serve()');
  return makeDashboard({ ...params, settings: checkedSettings, basePath: '/', where: 'serve()' });
}

// A port that is free on 127.0.0.1 may be taken on ::1.
const maxPortsTried = 10;

/** Listens on both loopback addresses with the same port, or on 127.0.0.1 alone without IPv6. */
async function listenLocally(
  listen: (address: string, port: number) => Promise<Listener>,
  port: number,
): Promise<readonly [Listener, ...Listener[]]> {
  for (let tried = 1; ; tried += 1) {
    const first = await listen('127.0.0.1', port);
    const taken = (first.server.address() as AddressInfo).port;
    try {
      const second = await tryListen(() => listen('::1', taken));
      return second === undefined ? [first] : [first, second];
    } catch (error) {
      await closeListener(first);
      const isTaken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
      if (isTaken && port === 0 && tried < maxPortsTried) continue;
      throw error;
    }
  }
}

function isLocal(host: string | undefined): boolean {
  return host === undefined || isLoopback(host);
}

/** Prevents binding to a public interface by accident. */
function checkExposure(host: string | undefined, options: HandlerOptions): HandlerOptions {
  if (isLocal(host) || host === undefined) return withHost(host, options);
  const { tokens } = options;
  const isEmpty = Array.isArray(tokens) && tokens.length === 0 && options.authorize === undefined;
  if ((!hasAuthentication(options) || isEmpty) && options.insecure !== true) {
    throw new PerdureError(
      'INVALID_OPTION',
      `Refusing to listen on the public interface ${JSON.stringify(host)} without authentication: pass \`tokens\` (create one with createToken()) or \`authorize\`, or listen on 127.0.0.1.`,
    );
  }
  if (!wildcards.includes(host)) return withHost(host, options);
  if ((options.allowedHosts ?? []).length > 0) return options;
  throw new PerdureError(
    'INVALID_OPTION',
    `\`allowedHosts\` is required to listen on ${JSON.stringify(host)}: pass the host names of the server, for example ['perdure.example.com'].`,
  );
}

/** Adds the listening address to `allowedHosts`. */
function withHost(host: string | undefined, options: HandlerOptions): HandlerOptions {
  const { allowedHosts = [] } = options;
  // A value of another type throws later, in readHandlerOptions().
  if (host === undefined || !Array.isArray(allowedHosts)) return options;
  return { ...options, allowedHosts: [host, ...(allowedHosts as readonly string[])] };
}

function makeListener(handler: RequestHandler, limits: ServerLimits): Listener {
  const server = createServer(
    {
      maxHeaderSize: maxHeaderBytes,
      headersTimeout: Math.min(limits.headersMs, limits.requestMs),
      requestTimeout: limits.requestMs,
      keepAliveTimeout: keepAliveMs,
      connectionsCheckingInterval: Math.min(5_000, limits.headersMs),
    },
    (incoming, outgoing) =>
      void handleExchange(handler, { connections, incoming, outgoing, limits }),
  );
  const connections = new Connections(server, limits);
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    if (error.code !== 'ECONNRESET' && socket.writable) socket.write(statusLine(error.code));
    // Closes the connection even if the peer keeps its half open.
    (socket as Socket).destroySoon();
  });
  return { server, connections };
}

function statusLine(code: string | undefined): string {
  const status =
    code === 'HPE_HEADER_OVERFLOW'
      ? '431 Request Header Fields Too Large'
      : code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? '408 Request Timeout'
        : '400 Bad Request';
  return `HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`;
}

async function handleExchange(
  handler: RequestHandler,
  given: {
    readonly connections: Connections;
    readonly incoming: IncomingMessage;
    readonly outgoing: ServerResponse;
    readonly limits: ServerLimits;
  },
): Promise<void> {
  const { connections, incoming, outgoing, limits } = given;
  const { socket } = incoming;
  const gone = new AbortController();
  outgoing.once('close', () => gone.abort());
  // A write to a disconnected caller is not an error of the server.
  outgoing.on('error', () => gone.abort());
  let onSent = (): void => undefined;
  connections.requestStarted(socket);
  try {
    const request = toWebRequest(incoming, gone.signal);
    if (request === undefined) {
      outgoing.writeHead(400, { connection: 'close' }).end();
      return;
    }
    const { remoteAddress } = socket;
    const onAuthenticated = (): void => connections.authenticate(socket);
    const isPipelined = (): boolean => connections.isPipelined(socket);
    const response = await handler(request, {
      remoteAddress,
      onAuthenticated,
      isPipelined,
      whenSent: (release) => void (onSent = release),
    });
    if (!connections.isAuthenticated(socket)) shortenKeepAlive(incoming, outgoing, limits);
    await sendResponse(response, outgoing, limits.requestMs);
  } catch {
    // For example invalid headers or a logger that throws: it must not affect other requests.
    outgoing.destroy();
  } finally {
    onSent();
    connections.requestEnded(socket);
  }
}

/** Announces the idle timeout of an unauthenticated connection. */
function shortenKeepAlive(
  { headers }: IncomingMessage,
  outgoing: ServerResponse,
  { anonymousIdleMs }: ServerLimits,
): void {
  if (!outgoing.shouldKeepAlive || headers.connection?.toLowerCase() === 'close') return;
  const seconds = Math.floor(anonymousIdleMs / 1_000);
  outgoing.setHeader('connection', seconds > 0 ? 'keep-alive' : 'close');
  if (seconds > 0) outgoing.setHeader('keep-alive', `timeout=${seconds}`);
}

function listenOn(
  listener: Listener,
  where: { readonly host: string; readonly port: number },
): Promise<Listener> {
  const { server } = listener;
  return new Promise((resolve, reject) => {
    const fail = (error: NodeJS.ErrnoException): void => reject(toListenError(error, where));
    server.once('error', fail);
    server.listen(where, () => {
      server.off('error', fail);
      resolve(listener);
    });
  });
}

/** Adds the fix to `EADDRINUSE`. Keeps the `code` of Node. */
function toListenError(
  error: NodeJS.ErrnoException,
  { host, port }: { readonly host: string; readonly port: number },
): Error {
  if (error.code !== 'EADDRINUSE') return error;
  const message = `Port ${port} on ${host} is in use by another process. Stop that process, or choose another port.`;
  return Object.assign(new Error(message, { cause: error }), { code: error.code });
}

/** Returns `undefined` if the machine has no IPv6. */
async function tryListen(listen: () => Promise<Listener>): Promise<Listener | undefined> {
  try {
    return await listen();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EADDRNOTAVAIL' || code === 'EAFNOSUPPORT') return undefined;
    throw error;
  }
}

async function closeListener({ server, connections }: Listener): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  server.close(() => resolve());
  connections.close();
  const timer = setTimeout(() => server.closeAllConnections(), closeGraceMs);
  await promise;
  clearTimeout(timer);
}
