import { isIP } from 'node:net';
import { HttpError } from '../http/errors.ts';

const loopbackNames: readonly string[] = ['localhost', '127.0.0.1', '::1'];

/** Whether a host name or address is the loopback interface. */
export function isLoopback(host: string): boolean {
  return loopbackNames.includes(host) || (isIP(host) === 4 && host.startsWith('127.'));
}

/**
 * Checks the `Host` and `Origin` headers of a request. Any web page can send requests to this machine, and with DNS
 * rebinding also read the responses. The check is therefore the first step of every request.
 */
export class OriginCheck {
  readonly #hosts: ReadonlySet<string>;
  readonly #origins: ReadonlySet<string>;
  readonly #rejectsProxies: boolean;

  constructor(
    hosts: readonly string[],
    origins: readonly string[],
    options: { readonly rejectsProxies: boolean },
  ) {
    this.#rejectsProxies = options.rejectsProxies;
    this.#hosts = new Set([...loopbackNames, ...hosts].map((host) => host.toLowerCase()));
    this.#origins = new Set(origins);
  }

  /** Throws 421 for an unknown host, and 403 for a page of another origin. */
  check(headers: Headers): void {
    this.checkHost(headers);
    const origin = headers.get('origin');
    if ((origin !== null && this.#origins.has(origin)) || !isForeign(headers)) return;
    throw new HttpError(
      'FORBIDDEN',
      `${describeOrigin(origin)} is not allowed. Add it to \`allowedOrigins\` if its pages may use this server.`,
      { status: 403, reason: 'origin' },
    );
  }

  /** Throws 421 for an unknown host. Sufficient for pages: other sites may link to them. */
  checkHost(headers: Headers): void {
    const host = headers.get('host') ?? '';
    const { name, port } = splitHost(host);
    if (!this.#hosts.has(name) && !this.#hosts.has(`${name}:${port}`)) {
      throw new HttpError(
        'WRONG_HOST',
        `Unknown host ${JSON.stringify(name.slice(0, maxQuotedLength))}. Add it to \`allowedHosts\` if it names this server.`,
        { status: 421 },
      );
    }
    if (this.#rejectsProxies) rejectProxy(headers);
  }

  /** Returns the headers that let an allowed origin read the response. Empty for other origins. */
  corsHeaders(headers: Headers): Readonly<Record<string, string>> {
    const origin = headers.get('origin');
    if (origin === null || !this.#origins.has(origin)) return {};
    return { 'access-control-allow-origin': origin, vary: 'origin' };
  }

  /** Returns the headers of the response to a CORS preflight, or `undefined` for other origins. */
  preflightHeaders(headers: Headers): Readonly<Record<string, string>> | undefined {
    const cors = this.corsHeaders(headers);
    if (!('vary' in cors)) return undefined;
    return {
      ...cors,
      'access-control-allow-methods': 'GET, POST',
      'access-control-allow-headers': 'authorization, content-type, traceparent, tracestate',
      'access-control-max-age': '600',
    };
  }
}

/** Whether a request comes from a page of another origin. Requests of other programs have no such headers. */
export function isForeign(headers: Headers): boolean {
  const origin = headers.get('origin');
  const site = headers.get('sec-fetch-site');
  const host = headers.get('host') ?? '';
  return (
    (site !== null && site !== 'same-origin' && site !== 'none') ||
    (origin !== null && origin.replace(/^https?:\/\//, '').toLowerCase() !== host.toLowerCase())
  );
}

/** Whether a request comes from a page of this origin. Browsers mark every request that is not a GET. */
export function isFromOwnPage(headers: Headers): boolean {
  const isMarked = headers.has('origin') || headers.get('sec-fetch-site') === 'same-origin';
  return isMarked && !isForeign(headers);
}

const maxQuotedLength = 200;

function describeOrigin(origin: string | null): string {
  if (origin === null) return 'The origin of the request';
  return `Origin ${JSON.stringify(origin.slice(0, maxQuotedLength))}`;
}

/**
 * Throws 403 for a request that came through a proxy. A server without authentication serves its own machine only, and
 * a proxy on that machine makes every caller appear local.
 */
function rejectProxy(headers: Headers): void {
  const found = [...headers.keys()].find((name) => /^(forwarded|via|x-forwarded-.+)$/.test(name));
  if (found === undefined) return;
  throw new HttpError(
    'FORBIDDEN',
    `The request came through a proxy (header ${JSON.stringify(found)}), and the server has no authentication. Pass \`tokens\` or \`authorize\` to the server, or \`insecure: true\` if the proxy authenticates every caller.`,
    { status: 403, reason: 'proxy' },
  );
}

function splitHost(host: string): { readonly name: string; readonly port: string } {
  const match = /^(?:\[([0-9a-f:.]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/i.exec(host);
  return { name: (match?.[1] ?? match?.[2] ?? '').toLowerCase(), port: match?.[3] ?? '' };
}
