import { toMs, type Duration } from './values/duration.ts';
import { PerdureError } from './failures/errors.ts';
import type { Failure } from './failures/failure.ts';

/** A class of errors, abstract or not. */
export type ErrorClass = abstract new (...args: never) => Error;

/** A class of errors by its name, as it is stored and as flows keep it. */
interface NamedClass {
  readonly class: string;
}

/** How often and how patiently a failed activity is tried again. */
export interface RetryPolicy {
  /** Attempts in all, the first included. Default 3; `Infinity` never gives up. */
  readonly maxAttempts?: number;
  readonly backoff?: 'fixed' | 'linear' | 'exponential';
  /** The wait before the second attempt. Default 1 s. */
  readonly initialDelay?: Duration;
  /** No wait is longer than this. Default 1 minute. */
  readonly maxDelay?: Duration;
  /** What exponential backoff multiplies by. Default 2. */
  readonly factor?: number;
  /** Random part of each wait, 0 to 1, so that many failures do not come back together. Default 0.2. */
  readonly jitter?: number;
  /**
   * Failures that are final. Text is the name or the code of an error, or the name of its class if the class sets no
   * `name`. A class also stands for its subclasses; it is stored, and matched, by its name.
   */
  readonly nonRetryable?: readonly (string | ErrorClass | NamedClass)[];
}

/** A retry policy with every field decided, as it is stored with the work item. */
export interface ResolvedRetryPolicy {
  /** `null` stands for no limit: JSON has no Infinity. */
  readonly maxAttempts: number | null;
  readonly backoff: 'fixed' | 'linear' | 'exponential';
  readonly initialDelayMs: number;
  readonly maxDelayMs: number;
  readonly factor: number;
  readonly jitter: number;
  readonly nonRetryable: readonly (string | NamedClass)[];
}

/** Fills in the defaults and refuses what makes no sense. */
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

/** The same entries as plain data: each class by its name. */
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
      'nonRetryable must hold names or codes of errors, or classes that have a name',
      entry,
    );
  });
}

/** A failed attempt: what is recorded, and the classes of what was thrown. */
export interface FailedAttempt {
  readonly failure: Failure;
  /** From its own class up to the built-in ones; empty where nothing was thrown. */
  readonly classes: readonly string[];
}

/** The wait before the next attempt, or `undefined` when the failure is final. `failures` counts this one. */
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
      // After some thousand failures the power is Infinity, and 0 times that is NaN.
      return policy.initialDelayMs * Math.min(policy.factor ** (failures - 1), Number.MAX_VALUE);
  }
}

/** The names that an error has from JavaScript itself, if its class sets none. */
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
  // A name that a class further up has set is not the class's own either.
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
  const shown = typeof value === 'object' && value !== null ? 'an object' : String(value);
  throw new PerdureError(
    'INVALID_OPTION',
    `Retry policy: ${problem}; it is ${shown.slice(0, 60)}.`,
  );
}
