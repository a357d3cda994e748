import type { CancellationType } from './cancel.ts';
import { PerdureError } from './failures/errors.ts';
import type { ResolvedRetryPolicy } from './retry-policy.ts';
import { parseJson } from './values/payload.ts';

/** What the worker needs to know of a call besides its input; plain data, stored with the work item. */
export interface ActivityOptions {
  readonly retry?: ResolvedRetryPolicy;
  readonly attemptTimeoutMs?: number;
  /** Absent: 0. */
  readonly priority?: number;
  /** What the definition gave to a call by name. A replay takes it from here, and never from a definition. */
  readonly byName?: {
    readonly timeoutMs?: number;
    readonly cancellation?: CancellationType;
  };
}

/** Reads stored options; throws `UNDECODABLE` for what no version of Perdure has written. */
export function decodeActivityOptions(stored: string | null): ActivityOptions {
  if (stored === null) return {};
  const options = parseOptions(stored);
  if (
    isObject(options) &&
    isRetry(options['retry']) &&
    isOptionalNumber(options['attemptTimeoutMs']) &&
    isOptionalNumber(options['priority']) &&
    (options['byName'] === undefined || isObject(options['byName']))
  ) {
    return options;
  }
  throw new PerdureError(
    'UNDECODABLE',
    'The stored options of an activity cannot be decoded. Were they written by a newer version, or damaged?',
  );
}

function parseOptions(stored: string): unknown {
  try {
    return parseJson(stored);
  } catch {
    return undefined;
  }
}

function isRetry(value: unknown): boolean {
  if (value === undefined) return true;
  if (!isObject(value) || !Array.isArray(value['nonRetryable'])) return false;
  if (!value['nonRetryable'].every(isErrorName)) return false;
  const { maxAttempts, backoff, initialDelayMs, maxDelayMs, factor, jitter } = value;
  return (
    (maxAttempts === null || typeof maxAttempts === 'number') &&
    (backoff === 'fixed' || backoff === 'linear' || backoff === 'exponential') &&
    [initialDelayMs, maxDelayMs, factor, jitter].every((number) => typeof number === 'number')
  );
}

function isErrorName(value: unknown): boolean {
  return typeof value === 'string' || (isObject(value) && typeof value['class'] === 'string');
}

function isOptionalNumber(value: unknown): boolean {
  return value === undefined || typeof value === 'number';
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Text by name, handed from whoever runs a task to its handler. */
export type Headers = Readonly<Record<string, string>>;

const noHeaders: Headers = Object.freeze({});

/** What is stored with a task run besides its input: nothing, for most. */
export function encodeTaskOptions(headers: Headers | undefined): string | null {
  return headers === undefined || Object.keys(headers).length === 0
    ? null
    : JSON.stringify({ headers });
}

/** Reads the stored headers of a run; throws `UNDECODABLE` for what no version of Perdure has written. */
export function decodeHeaders(stored: string | null): Headers {
  if (stored === null) return noHeaders;
  const headers = parseHeaders(stored);
  if (isHeaders(headers)) return headers;
  throw new PerdureError(
    'UNDECODABLE',
    'The stored options of a task run cannot be decoded. Were they written by a newer version, or damaged?',
  );
}

/** Whether a value is an object of texts. */
export function isHeaders(value: unknown): value is Headers {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.values(value).every((text) => typeof text === 'string');
}

function parseHeaders(stored: string): unknown {
  try {
    return (parseJson(stored) as { readonly headers?: unknown } | null)?.headers;
  } catch {
    return undefined;
  }
}
