import { isIP } from 'node:net';
import { HttpError } from '../http/errors.ts';

const loopbackNames: readonly string[] = ['localhost', '127.0.0.1', '::1'];

/** Whether a name or address never leaves the machine. */
export function isLoopback(host: string): boolean {
  return loopbackNames.includes(host) || (isIP(host) === 4 && host.startsWith('127.'));
}

/**
 * Which names the server answers to, and which pages may use it. A page of anybody can send requests to this machine,
 * and with a name that resolves to it (DNS rebinding) even read the answers: so the name that a request asks for, and
 * what the browser says of its origin, are checked before anything else.
 */
export class OriginCheck {
  readonly #hosts: ReadonlySet<string>;
  readonly #origins: ReadonlySet<string>;
  readonly #refusesProxies: boolean;

  constructor(
    hosts: readonly string[],
    origins: readonly string[],
    options: { readonly refusesProxies: boolean },
  ) {
    this.#refusesProxies = options.refusesProxies;
    this.#hosts = new Set([...loopbackNames, ...hosts].map((host) => host.toLowerCase()));
    this.#origins = new Set(origins);
  }

  /** Refuses a request that was meant for another name, or comes from a page that may not ask. */
  check(headers: Headers): void {
    const host = headers.get('host') ?? '';
    const { name, port } = splitHost(host);
    if (!this.#hosts.has(name) && !this.#hosts.has(`${name}:${port}`)) {
      throw new HttpError(
        'WRONG_HOST',
        'The server does not answer to this name. Add it to allowedHosts if it should.',
        { status: 421 },
      );
    }
    if (this.#refusesProxies) refuseProxy(headers);
    const origin = headers.get('origin');
    if (origin !== null && this.#origins.has(origin)) return;
    const site = headers.get('sec-fetch-site');
    const isForeign =
      (site !== null && site !== 'same-origin' && site !== 'none') ||
      (origin !== null && origin.replace(/^https?:\/\//, '').toLowerCase() !== host.toLowerCase());
    if (isForeign) {
      throw new HttpError(
        'FORBIDDEN',
        `${describeOrigin(origin)} is not in \`allowedOrigins\`, so its pages may not use this server. Add it to the \`allowedOrigins\` of serve() if they should.`,
        { status: 403, reason: 'origin' },
      );
    }
  }

  /** What lets the page of an allowed origin read the answer; nothing for all others. */
  corsHeaders(headers: Headers): Readonly<Record<string, string>> {
    const origin = headers.get('origin');
    if (origin === null || !this.#origins.has(origin)) return {};
    return { 'access-control-allow-origin': origin, vary: 'origin' };
  }

  /** The answer to a browser that asks whether the page of an allowed origin may send a request. */
  preflightHeaders(headers: Headers): Readonly<Record<string, string>> | undefined {
    const cors = this.corsHeaders(headers);
    if (!('vary' in cors)) return undefined;
    return {
      ...cors,
      'access-control-allow-methods': 'GET, POST',
      'access-control-allow-headers': 'authorization, content-type',
      'access-control-max-age': '600',
    };
  }
}

const maxOriginLength = 200;

function describeOrigin(origin: string | null): string {
  if (origin === null) return 'The origin of the request';
  return `Origin ${JSON.stringify(origin.slice(0, maxOriginLength))}`;
}

/**
 * Refuses a request that passed a proxy. A server without authentication serves its own machine alone; a proxy on that
 * machine makes every caller of the proxy look local.
 */
function refuseProxy(headers: Headers): void {
  const found = [...headers.keys()].find((name) => /^(forwarded|via|x-forwarded-.+)$/.test(name));
  if (found === undefined) return;
  throw new HttpError(
    'FORBIDDEN',
    `The request has the header ${JSON.stringify(found)}: a proxy is in front of a server that has no authentication. Pass \`tokens\` or \`authorize\` to the server, or \`insecure: true\` if the proxy authenticates every caller.`,
    { status: 403, reason: 'proxy' },
  );
}

function splitHost(host: string): { readonly name: string; readonly port: string } {
  const match = /^(?:\[([0-9a-f:.]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/i.exec(host);
  return { name: (match?.[1] ?? match?.[2] ?? '').toLowerCase(), port: match?.[3] ?? '' };
}
