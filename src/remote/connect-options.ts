import { toMs, type Duration } from '../model/values/duration.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { invalidOption, readFields } from '../model/option-fields.ts';
import { defaultPayloadLimitBytes } from '../model/values/payload.ts';

/** How to reach a server of Perdure. */
export interface ConnectOptions {
  /** The token that the server knows this client by; it goes into a header, never into a URL. */
  readonly token?: string | undefined;
  /** How long one request may take before it counts as lost. Default 30 s. */
  readonly requestTimeout?: Duration | undefined;
  /** How long a call that may be made again is made again while the server cannot be reached. Default 30 s. */
  readonly retryFor?: Duration | undefined;
  /** The largest input and event payload, in bytes of JSON. Default 2 MiB. */
  readonly payloadLimitBytes?: number | undefined;
  /** The largest answer that is read, in bytes after decompression. Default 64 MiB. */
  readonly answerLimitBytes?: number | undefined;
  /**
   * Allows a token over plain `http` to a host that is not this machine, where anyone on the way can read it.
   * Default false.
   */
  readonly allowInsecureHttp?: boolean | undefined;
  /** Makes the requests. Default: the `fetch` of the platform. */
  readonly fetch?: typeof globalThis.fetch | undefined;
}

/** Options that were checked. */
export interface CheckedConnect {
  /** Ends without a slash. */
  readonly baseUrl: string;
  readonly token: string | undefined;
  readonly requestTimeoutMs: number;
  readonly retryForMs: number;
  readonly payloadLimitBytes: number;
  readonly answerLimitBytes: number;
  readonly fetch: typeof globalThis.fetch;
}

const keys = [
  'token',
  'requestTimeout',
  'retryFor',
  'payloadLimitBytes',
  'answerLimitBytes',
  'allowInsecureHttp',
  'fetch',
] as const;

const defaultAnswerLimitBytes = 64 * 1024 * 1024;

/** Checks where and how to connect; bad values are `INVALID_OPTION`. */
export function readConnect(url: unknown, options: unknown): CheckedConnect {
  const given = readFields(options, 'connect()', keys);
  const { token, allowInsecureHttp = false, fetch } = given;
  // What a header cannot carry would only be found by the first request, in words about headers.
  if (token !== undefined && !(typeof token === 'string' && /^[\x21-\x7e]+$/.test(token))) {
    throw new PerdureError('INVALID_OPTION', 'token must be text without spaces or accents.');
  }
  if (typeof allowInsecureHttp !== 'boolean') {
    throw invalidOption('allowInsecureHttp', allowInsecureHttp, 'true or false');
  }
  if (fetch !== undefined && typeof fetch !== 'function') {
    throw invalidOption('fetch', fetch, 'a function like the fetch of the platform');
  }
  const baseUrl = readUrl(url);
  if (token !== undefined && !allowInsecureHttp) assertPrivate(baseUrl);
  return {
    baseUrl,
    token,
    requestTimeoutMs: toMs((given.requestTimeout ?? '30s') as Duration, 'requestTimeout'),
    retryForMs: toMs((given.retryFor ?? '30s') as Duration, 'retryFor'),
    payloadLimitBytes: readBytes(
      'payloadLimitBytes',
      given.payloadLimitBytes,
      defaultPayloadLimitBytes,
    ),
    answerLimitBytes: readBytes(
      'answerLimitBytes',
      given.answerLimitBytes,
      defaultAnswerLimitBytes,
    ),
    // Browsers refuse a fetch that is called as somebody's method.
    fetch:
      (fetch as typeof globalThis.fetch | undefined) ?? ((...args) => globalThis.fetch(...args)),
  };
}

function readUrl(url: unknown): string {
  const parsed = typeof url === 'string' || url instanceof URL ? tryParse(url) : undefined;
  if (parsed === undefined || !/^https?:$/.test(parsed.protocol)) {
    throw new PerdureError(
      'INVALID_OPTION',
      'connect takes the address of a server of Perdure, like http://127.0.0.1:7373.',
    );
  }
  if (
    parsed.username !== '' ||
    parsed.password !== '' ||
    parsed.search !== '' ||
    parsed.hash !== ''
  ) {
    throw new PerdureError(
      'INVALID_OPTION',
      'The address of a server has no user, password, query or fragment. Pass the token as an option.',
    );
  }
  return parsed.href.replace(/\/+$/, '');
}

function readBytes(option: string, value: unknown, fallback: number): number {
  if (value === undefined) return fallback;
  if (Number.isSafeInteger(value) && (value as number) >= 1) return value as number;
  throw invalidOption(option, value, 'a whole number of 1 or more');
}

/** Keeps a token off networks that can read it. */
function assertPrivate(baseUrl: string): void {
  const { protocol, hostname } = new URL(baseUrl);
  const isLoopback = /^(?:(?:.+\.)?localhost|127(?:\.\d{1,3}){3}|\[::1\])$/.test(hostname);
  if (protocol === 'https:' || isLoopback) return;
  throw new PerdureError(
    'INVALID_OPTION',
    `The token would travel to ${JSON.stringify(hostname)} unencrypted. Use https, or pass \`allowInsecureHttp: true\` on a network that you trust.`,
  );
}

function tryParse(url: string | URL): URL | undefined {
  try {
    return new URL(url);
  } catch {
    return undefined;
  }
}
