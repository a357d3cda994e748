import { PerdureError } from './errors.ts';
import { parseJson } from './payload.ts';
import type { ResolvedRetryPolicy } from './retry-policy.ts';

/** What the worker needs to know of a call besides its input; plain data, stored with the work item. */
export interface ActivityOptions {
  readonly retry?: ResolvedRetryPolicy;
  readonly attemptTimeoutMs?: number;
  /** Absent: 0. */
  readonly priority?: number;
  /**
   * The overall timeout that the definition of an activity called by name gave. Recorded, so that a replay issues its timer
   * also where the definition is unknown or has changed.
   */
  readonly timeoutMs?: number;
}

/** Reads stored options; throws `UNDECODABLE` for what no version of Perdure has written. */
export function decodeActivityOptions(stored: string | null): ActivityOptions {
  if (stored === null) return {};
  const options = parse(stored);
  if (
    isObject(options) &&
    isRetry(options['retry']) &&
    isOptionalNumber(options['attemptTimeoutMs']) &&
    isOptionalNumber(options['priority']) &&
    isOptionalNumber(options['timeoutMs'])
  ) {
    return options;
  }
  throw new PerdureError(
    'UNDECODABLE',
    'The stored options of an activity cannot be decoded. Were they written by a newer version, or damaged?',
  );
}

function parse(stored: string): unknown {
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
