import { toMs, type Duration } from '../model/values/duration.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { invalidOption, readFields } from '../model/option-fields.ts';
import type { PayloadCodec } from '../model/encoding/codec.ts';
import { isTelemetry, type Telemetry } from '../model/telemetry.ts';
import { defaultPayloadLimitBytes } from '../model/values/payload.ts';

/** Options of a connection to a server. */
export interface ConnectOptions {
  /** The token of this client. Sent in a header, never in a URL. */
  readonly token?: string | undefined;
  /** Timeout of one request. Default 30 s. */
  readonly requestTimeout?: Duration | undefined;
  /** How long idempotent calls are retried while the server is unreachable. Default 30 s. */
  readonly retryFor?: Duration | undefined;
  /** Maximum size of an input or event payload, in bytes of JSON. Default 2 MiB. */
  readonly payloadLimitBytes?: number | undefined;
  /** Maximum size of a response, in bytes after decompression. Default 64 MiB. */
  readonly answerLimitBytes?: number | undefined;
  /**
   * Allow a token over plain `http` to another host, where it can be intercepted. Default false.
   */
  readonly allowInsecureHttp?: boolean | undefined;
  /** Sends the requests. Default: the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch | undefined;
  /** Spans for the calls of this client: `otel()` of `perdure/otel`. Default: none. */
  readonly telemetry?: Telemetry | undefined;
  /**
   * Decodes payloads that the server returns encoded, because it has no codec. Payloads are sent as they are. Default:
   * none.
   */
  readonly codec?: Pick<PayloadCodec, 'decode'> | undefined;
}

/** Connection options, checked. */
export interface CheckedConnect {
  /** Without a trailing slash. */
  readonly baseUrl: string;
  readonly token: string | undefined;
  readonly requestTimeoutMs: number;
  readonly retryForMs: number;
  readonly payloadLimitBytes: number;
  readonly answerLimitBytes: number;
  readonly fetch: typeof globalThis.fetch;
  readonly telemetry: Telemetry | undefined;
  readonly codec: Pick<PayloadCodec, 'decode'> | undefined;
}

const keys = [
  'token',
  'requestTimeout',
  'retryFor',
  'payloadLimitBytes',
  'answerLimitBytes',
  'allowInsecureHttp',
  'fetch',
  'telemetry',
  'codec',
] as const;

const defaultAnswerLimitBytes = 64 * 1024 * 1024;

/** Checks the arguments of `connect`. Throws `INVALID_OPTION`. */
export function readConnect(url: unknown, options: unknown): CheckedConnect {
  const given = readFields(options, 'connect()', keys);
  const { token, allowInsecureHttp = false, fetch, telemetry } = given;
  if (telemetry !== undefined && !isTelemetry(telemetry)) {
    throw invalidOption('telemetry', telemetry, 'the result of otel() from perdure/otel');
  }
  if (
    given.codec !== undefined &&
    typeof Reflect.get(Object(given.codec), 'decode') !== 'function'
  ) {
    throw new PerdureError(
      'INVALID_OPTION',
      'Invalid `codec`: it needs the method decode(bytes, keyId). Use aesGcm() or gzip() of perdure/codecs.',
    );
  }
  // Otherwise the first request would fail with an error about headers.
  if (token !== undefined && !(typeof token === 'string' && /^[\x21-\x7e]+$/.test(token))) {
    throw new PerdureError(
      'INVALID_OPTION',
      'Invalid `token`: must be printable ASCII without spaces.',
    );
  }
  if (typeof allowInsecureHttp !== 'boolean') {
    throw invalidOption('allowInsecureHttp', allowInsecureHttp, 'true or false');
  }
  if (fetch !== undefined && typeof fetch !== 'function') {
    throw invalidOption('fetch', fetch, 'a function with the signature of fetch()');
  }
  const baseUrl = readUrl(url);
  if (token !== undefined && !allowInsecureHttp) assertPrivate(baseUrl);
  return {
    baseUrl,
    token,
    telemetry,
    codec: given.codec as CheckedConnect['codec'],
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
    // Browsers throw if `fetch` is called as a method of another object.
    fetch:
      (fetch as typeof globalThis.fetch | undefined) ?? ((...args) => globalThis.fetch(...args)),
  };
}

function readUrl(url: unknown): string {
  const parsed = typeof url === 'string' || url instanceof URL ? tryParse(url) : undefined;
  if (parsed === undefined || !/^https?:$/.test(parsed.protocol)) {
    throw new PerdureError(
      'INVALID_OPTION',
      'Invalid server URL in connect(): pass an http or https URL such as http://127.0.0.1:7373.',
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
      'Invalid server URL in connect(): it must have no user, password, query or fragment. Pass the token as an option.',
    );
  }
  return parsed.href.replace(/\/+$/, '');
}

function readBytes(option: string, value: unknown, fallback: number): number {
  if (value === undefined) return fallback;
  if (Number.isSafeInteger(value) && (value as number) >= 1) return value as number;
  throw invalidOption(option, value, 'a whole number of 1 or more');
}

/** Prevents sending a token unencrypted over a network. */
function assertPrivate(baseUrl: string): void {
  const { protocol, hostname } = new URL(baseUrl);
  const isLoopback = /^(?:(?:.+\.)?localhost|127(?:\.\d{1,3}){3}|\[::1\])$/.test(hostname);
  if (protocol === 'https:' || isLoopback) return;
  throw new PerdureError(
    'INVALID_OPTION',
    `The token would be sent to ${JSON.stringify(hostname)} unencrypted. Use https, or pass \`allowInsecureHttp: true\` on a trusted network.`,
  );
}

function tryParse(url: string | URL): URL | undefined {
  try {
    return new URL(url);
  } catch {
    return undefined;
  }
}
