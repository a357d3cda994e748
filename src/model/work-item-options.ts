import type { CancellationType } from './cancel.ts';
import { PerdureError } from './failures/errors.ts';
import { isLane, type Lane } from './limit-options.ts';
import type { ResolvedRetryPolicy } from './retry-policy.ts';
import type { TraceContext } from './trace-context.ts';
import { isHeaders, noHeaders, type Headers } from './values/headers.ts';
import { parseJson } from './values/payload.ts';

/** Options of a call that are stored with the work item, for the worker. */
export interface ActivityOptions {
  readonly retry?: ResolvedRetryPolicy;
  readonly attemptTimeoutMs?: number;
  /** Absent: 0. */
  readonly priority?: number;
  /** Absent: the call has no key. */
  readonly lane?: Lane;
  /** Options of the definition, for a call by name. A replay reads them here, not from the definition. */
  readonly byName?: {
    readonly timeoutMs?: number;
    readonly cancellation?: CancellationType;
  };
}

/** Decodes stored options. Throws `UNDECODABLE` for invalid ones. */
export function decodeActivityOptions(stored: string | null): ActivityOptions {
  if (stored === null) return {};
  const options = parseOptions(stored);
  if (
    isObject(options) &&
    isRetry(options['retry']) &&
    isOptionalNumber(options['attemptTimeoutMs']) &&
    isOptionalNumber(options['priority']) &&
    isLaneOrAbsent(options['lane']) &&
    (options['byName'] === undefined || isObject(options['byName']))
  ) {
    return options;
  }
  throw new PerdureError(
    'UNDECODABLE',
    'The stored options of an activity cannot be decoded: they are damaged, or a newer version wrote them.',
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

function isLaneOrAbsent(value: unknown): boolean {
  return value === undefined || isLane(value);
}

function isOptionalNumber(value: unknown): boolean {
  return value === undefined || typeof value === 'number';
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Encodes the options of a task run; `null` if there are none. */
export function encodeTaskOptions(
  headers: Headers | undefined,
  trace?: TraceContext,
): string | null {
  const hasHeaders = headers !== undefined && Object.keys(headers).length > 0;
  if (!hasHeaders && trace === undefined) return null;
  return JSON.stringify({ ...(hasHeaders && { headers }), ...(trace !== undefined && { trace }) });
}

/** Decodes the headers of a task run. Throws `UNDECODABLE` for invalid ones. */
export function decodeHeaders(stored: string | null): Headers {
  if (stored === null) return noHeaders;
  const headers = parseHeaders(stored);
  if (isHeaders(headers)) return headers;
  throw new PerdureError(
    'UNDECODABLE',
    'The stored options of a task run cannot be decoded: they are damaged, or a newer version wrote them.',
  );
}

function parseHeaders(stored: string): unknown {
  try {
    const options = parseJson(stored);
    if (!isObject(options)) return undefined;
    return options['headers'] === undefined ? noHeaders : options['headers'];
  } catch {
    return undefined;
  }
}
