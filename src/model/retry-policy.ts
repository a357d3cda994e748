import { toMs, type Duration } from './values/duration.ts';
import { PerdureError } from './failures/errors.ts';
import { showValue } from './option-fields.ts';
import type { Failure } from './failures/failure.ts';

/** An error class, abstract or not. */
export type ErrorClass = abstract new (...args: never) => Error;

/** An error class by name, as stores and flows keep it. */
interface NamedClass {
  readonly class: string;
}

/** How a failed activity or task is retried. */
export interface RetryPolicy {
  /** Maximum attempts, including the first. Default 3; `Infinity` for no limit. */
  readonly maxAttempts?: number;
  /** How the delay grows with each failure. Default `'exponential'`. */
  readonly backoff?: 'fixed' | 'linear' | 'exponential';
  /** Delay before the second attempt. Default 1 s. */
  readonly initialDelay?: Duration;
  /** Maximum delay. Default 1 minute. */
  readonly maxDelay?: Duration;
  /** Factor of exponential backoff. Default 2. */
  readonly factor?: number;
  /** Random part of each delay, 0 to 1, to spread simultaneous retries. Default 0.2. */
  readonly jitter?: number;
  /**
   * Errors that are not retried. A string matches the name or the code of an error, or the name of its class if that sets
   * no `name`. A class also matches its subclasses; it is stored and compared by name.
   */
  readonly nonRetryable?: readonly (string | ErrorClass | NamedClass)[];
}

/** A retry policy with all defaults applied, as it is stored with the work item. */
export interface ResolvedRetryPolicy {
  /** `null` for no limit, because JSON has no Infinity. */
  readonly maxAttempts: number | null;
  readonly backoff: 'fixed' | 'linear' | 'exponential';
  readonly initialDelayMs: number;
  readonly maxDelayMs: number;
  readonly factor: number;
  readonly jitter: number;
  readonly nonRetryable: readonly (string | NamedClass)[];
}

/** Applies the defaults. Throws `INVALID_OPTION` for invalid fields. */
export function resolveRetryPolicy(policy: RetryPolicy = {}): ResolvedRetryPolicy {
  check(typeof policy === 'object' && policy !== null, 'it must be an object', policy);
  const { maxAttempts = 3, backoff = 'exponential', factor = 2, jitter = 0.2 } = policy;
  const { nonRetryable = [] } = policy;
  check(
    maxAttempts === Infinity || (Number.isSafeInteger(maxAttempts) && maxAttempts >= 1),
    'maxAttempts must be a whole number of 1 or more, or Infinity',
    maxAttempts,
  );
  check(
    ['fixed', 'linear', 'exponential'].includes(backoff),
    "backoff must be 'fixed', 'linear' or 'exponential'",
    backoff,
  );
  check(Number.isFinite(factor) && factor >= 1, 'factor must be a number of 1 or more', factor);
  check(
    Number.isFinite(jitter) && jitter >= 0 && jitter <= 1,
    'jitter must be a number from 0 to 1',
    jitter,
  );
  return {
    maxAttempts: maxAttempts === Infinity ? null : maxAttempts,
    backoff,
    initialDelayMs: toMs(policy.initialDelay ?? 1_000, 'retry.initialDelay'),
    maxDelayMs: toMs(policy.maxDelay ?? 60_000, 'retry.maxDelay'),
    factor,
    jitter,
    nonRetryable: nameClasses(nonRetryable),
  };
}

/** Replaces each class by its name. */
function nameClasses(
  entries: NonNullable<RetryPolicy['nonRetryable']>,
): ResolvedRetryPolicy['nonRetryable'] {
  check(Array.isArray(entries), 'nonRetryable must be an array', entries);
  return entries.map((entry) => {
    if (typeof entry === 'string') return entry;
    const name: unknown = typeof entry === 'function' ? entry.name : entry?.class;
    if (typeof name === 'string' && name !== '') return { class: name };
    return check(
      false,
      'nonRetryable must contain names or codes of errors, or named classes',
      entry,
    );
  });
}

/** A failed attempt: its failure, and the classes of the thrown error. */
export interface FailedAttempt {
  readonly failure: Failure;
  /** From its own class up to the built-in ones. Empty if nothing was thrown. */
  readonly classes: readonly string[];
}

/** Returns the delay before the next attempt, or `undefined` if there is none. `failures` includes this one. */
export function nextRetryDelayMs(
  policy: ResolvedRetryPolicy,
  failures: number,
  attempt: FailedAttempt,
  random: () => number,
): number | undefined {
  if (policy.maxAttempts !== null && failures >= policy.maxAttempts) return undefined;
  if (attempt.failure.nonRetryable === true || isListed(policy, attempt)) return undefined;
  const base = Math.min(backoffMs(policy, failures), policy.maxDelayMs);
  return Math.round(base * (1 - policy.jitter + policy.jitter * random()));
}

function backoffMs(policy: ResolvedRetryPolicy, failures: number): number {
  switch (policy.backoff) {
    case 'fixed':
      return policy.initialDelayMs;
    case 'linear':
      return policy.initialDelayMs * failures;
    case 'exponential':
      // After some thousand failures the power is Infinity, and 0 * Infinity is NaN.
      return policy.initialDelayMs * Math.min(policy.factor ** (failures - 1), Number.MAX_VALUE);
  }
}

/** The names of built-in errors, which subclasses inherit. */
const builtinNames: ReadonlySet<string> = new Set([
  'Error',
  'AggregateError',
  'EvalError',
  'RangeError',
  'ReferenceError',
  'SyntaxError',
  'TypeError',
  'URIError',
]);

function isListed(policy: ResolvedRetryPolicy, { failure, classes }: FailedAttempt): boolean {
  const { name, code } = failure;
  // A name that a superclass has set is inherited too.
  const isInherited = builtinNames.has(name) || classes.lastIndexOf(name) > 0;
  const className = isInherited ? classes[0] : undefined;
  return policy.nonRetryable.some((entry) =>
    typeof entry === 'string'
      ? entry === name || entry === code || entry === className
      : classes.includes(entry.class),
  );
}

function check(holds: false, problem: string, value: unknown): never;
function check(holds: boolean, problem: string, value: unknown): void;
function check(holds: boolean, problem: string, value: unknown): void {
  if (holds) return;
  throw new PerdureError(
    'INVALID_OPTION',
    `Invalid retry policy: ${problem}, not ${showValue(value)}.`,
  );
}
