import { isIP } from 'node:net';
import { Refusal } from './refusal.ts';

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

  constructor(hosts: readonly string[], origins: readonly string[]) {
    this.#hosts = new Set([...loopbackNames, ...hosts].map((host) => host.toLowerCase()));
    this.#origins = new Set(origins);
  }

  /** Refuses a request that was meant for another name, or comes from a page that may not ask. */
  check(headers: Headers): void {
    const host = headers.get('host') ?? '';
    const { name, port } = splitHost(host);
    if (!this.#hosts.has(name) && !this.#hosts.has(`${name}:${port}`)) {
      throw new Refusal(
        'WRONG_HOST',
        'The server does not answer to this name. Add it to allowedHosts if it should.',
        { status: 421 },
      );
    }
    const origin = headers.get('origin');
    if (origin !== null && this.#origins.has(origin)) return;
    const site = headers.get('sec-fetch-site');
    const isForeign =
      (site !== null && site !== 'same-origin' && site !== 'none') ||
      (origin !== null && origin.replace(/^https?:\/\//, '').toLowerCase() !== host.toLowerCase());
    if (isForeign) {
      throw new Refusal(
        'FORBIDDEN',
        'Pages of other origins may not use this server. Add the origin to allowedOrigins if it should.',
        { status: 403 },
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

function splitHost(host: string): { readonly name: string; readonly port: string } {
  const match = /^(?:\[([0-9a-f:.]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/i.exec(host);
  return { name: (match?.[1] ?? match?.[2] ?? '').toLowerCase(), port: match?.[3] ?? '' };
}
