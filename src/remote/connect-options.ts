import { toMs, type Duration } from '../model/duration.ts';
import { PerdureError } from '../model/errors.ts';
import { invalidOption, readFields } from '../model/option-fields.ts';
import { defaultPayloadLimitBytes } from '../model/payload.ts';

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
  readonly fetch: typeof globalThis.fetch;
}

const keys = ['token', 'requestTimeout', 'retryFor', 'payloadLimitBytes', 'fetch'] as const;

/** Checks where and how to connect; bad values are `INVALID_OPTION`. */
export function readConnect(url: unknown, options: unknown): CheckedConnect {
  const given = readFields(options, 'options', keys, 'INVALID_OPTION');
  const { token, payloadLimitBytes = defaultPayloadLimitBytes, fetch } = given;
  // What a header cannot carry would only be found by the first request, in words about headers.
  if (token !== undefined && !(typeof token === 'string' && /^[\x21-\x7e]+$/.test(token))) {
    throw new PerdureError('INVALID_OPTION', 'token must be text without spaces or accents.');
  }
  if (!Number.isSafeInteger(payloadLimitBytes) || (payloadLimitBytes as number) < 1) {
    throw invalidOption('payloadLimitBytes', payloadLimitBytes, 'a whole number of 1 or more');
  }
  if (fetch !== undefined && typeof fetch !== 'function') {
    throw invalidOption('fetch', fetch, 'a function like the fetch of the platform');
  }
  return {
    baseUrl: readUrl(url),
    token,
    requestTimeoutMs: toMs((given.requestTimeout ?? '30s') as Duration, 'requestTimeout'),
    retryForMs: toMs((given.retryFor ?? '30s') as Duration, 'retryFor'),
    payloadLimitBytes: payloadLimitBytes as number,
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

function tryParse(url: string | URL): URL | undefined {
  try {
    return new URL(url);
  } catch {
    return undefined;
  }
}
