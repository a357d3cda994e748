import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Client } from '../client/client.ts';
import { PerdureError } from '../model/errors.ts';
import { invalidOption, readFields } from '../model/option-fields.ts';
import { createHandler, type RequestHandler } from './handler.ts';
import { handlerOptionNames, type HandlerOptions } from './handler-options.ts';
import { readLimits, type ServerLimits } from './limits.ts';
import { sendResponse, toWebRequest } from './node-exchange.ts';
import { isLoopback } from './origin-check.ts';

/** Where to listen, who may use the server, and how much it takes on. */
export interface ServeOptions extends HandlerOptions {
  /** Default: this machine only, `127.0.0.1` and `::1`. Other addresses need tokens. */
  readonly host?: string | undefined;
  /** Default 7373; 0 takes one that is free. */
  readonly port?: number | undefined;
}

const defaultPort = 7373;
const maxHeaderBytes = 16 * 1024;
const keepAliveMs = 60_000;
// A client that does not read its last answer must not keep a server from closing.
const closeGraceMs = 5_000;
const wildcards: readonly string[] = ['0.0.0.0', '::', ''];

/** A server that listens. */
export class PerdureServer {
  /** Where it can be reached from this machine. */
  readonly url: string;
  readonly port: number;
  readonly #servers: readonly Server[];
  readonly #handler: RequestHandler;
  #closed: Promise<void> | undefined;

  constructor(servers: readonly [Server, ...Server[]], handler: RequestHandler) {
    const { address, family, port } = servers[0].address() as AddressInfo;
    const host = wildcards.includes(address) ? '127.0.0.1' : address;
    this.url = `http://${family === 'IPv6' && host === address ? `[${host}]` : host}:${port}`;
    this.port = port;
    this.#servers = servers;
    this.#handler = handler;
  }

  /** Ends streams and waits, lets other requests end, and stops listening. The store stays open. Idempotent. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #close(): Promise<void> {
    const closed = this.#servers.map(closeServer);
    this.#handler.close();
    await Promise.all(closed);
  }
}

/** Serves the API of a store over HTTP. */
export async function serve(
  perdure: { readonly client: Client },
  options: ServeOptions = {},
): Promise<PerdureServer> {
  readFields(options, 'options', ['host', 'port', ...handlerOptionNames], 'INVALID_OPTION');
  const { host, port = defaultPort, ...rest } = options;
  if (!Number.isSafeInteger(port) || port < 0 || port > 65_535) {
    throw invalidOption('port', port, 'a whole number from 0 to 65535');
  }
  const handler = createHandler(perdure.client, checkReach(host, rest));
  const limits = readLimits(rest.limits);
  const listen = (address: string, at: number): Promise<Server> =>
    listenOn(makeServer(handler, limits), { host: address, port: at });
  if (host !== undefined) return new PerdureServer([await listen(host, port)], handler);
  const first = await listen('127.0.0.1', port);
  const second = await tryListen(() => listen('::1', (first.address() as AddressInfo).port));
  return new PerdureServer(second === undefined ? [first] : [first, second], handler);
}

/** Lets nobody listen to the whole world by oversight. */
function checkReach(host: string | undefined, options: HandlerOptions): HandlerOptions {
  if (host === undefined || isLoopback(host)) {
    return { ...options, insecure: options.insecure ?? options.tokens === undefined };
  }
  const hasTokens = (options.tokens ?? []).length > 0;
  if (!hasTokens && options.insecure !== true) {
    throw new PerdureError(
      'INVALID_OPTION',
      `${JSON.stringify(host)} can be reached from other machines, so tokens are needed: createToken() makes one. Or listen on 127.0.0.1.`,
    );
  }
  if (!wildcards.includes(host)) {
    return { ...options, allowedHosts: [host, ...(options.allowedHosts ?? [])] };
  }
  if ((options.allowedHosts ?? []).length > 0) return options;
  throw new PerdureError(
    'INVALID_OPTION',
    `On ${JSON.stringify(host)} the server has to be told its name: pass allowedHosts, like ['perdure.example.com'].`,
  );
}

function makeServer(handler: RequestHandler, limits: ServerLimits): Server {
  const server = createServer(
    {
      maxHeaderSize: maxHeaderBytes,
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      keepAliveTimeout: keepAliveMs,
      connectionsCheckingInterval: Math.min(5_000, limits.headersMs),
    },
    (incoming, outgoing) =>
      void exchange(handler, { server, incoming, outgoing, stallMs: limits.requestMs }),
  );
  server.maxConnections = limits.connections;
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    // Past the headers there may be half an answer on the wire, to which nothing can be added.
    if (error.code === 'ECONNRESET' || !socket.writable) socket.destroy();
    else socket.end(statusLine(error.code));
  });
  return server;
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

async function exchange(
  handler: RequestHandler,
  {
    server,
    incoming,
    outgoing,
    stallMs,
  }: {
    readonly server: Server;
    readonly incoming: IncomingMessage;
    readonly outgoing: ServerResponse;
    readonly stallMs: number;
  },
): Promise<void> {
  const gone = new AbortController();
  outgoing.once('close', () => gone.abort());
  const request = toWebRequest(incoming, gone.signal);
  if (request === undefined) {
    outgoing.writeHead(400, { connection: 'close' }).end();
    return;
  }
  const { remoteAddress } = incoming.socket;
  await sendResponse(await handler(request, { remoteAddress }), outgoing, stallMs);
  // A connection that could be used again would keep a server that closes waiting.
  if (!server.listening) incoming.socket.destroySoon();
}

function listenOn(
  server: Server,
  where: { readonly host: string; readonly port: number },
): Promise<Server> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(where, () => {
      server.off('error', reject);
      resolve(server);
    });
  });
}

/** Some machines have no IPv6, and on others the port is taken there. */
async function tryListen(listen: () => Promise<Server>): Promise<Server | undefined> {
  try {
    return await listen();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EADDRNOTAVAIL' || code === 'EAFNOSUPPORT' || code === 'EADDRINUSE') {
      return undefined;
    }
    throw error;
  }
}

async function closeServer(server: Server): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  server.close(() => resolve());
  server.closeIdleConnections();
  const timer = setTimeout(() => server.closeAllConnections(), closeGraceMs);
  await promise;
  clearTimeout(timer);
}
