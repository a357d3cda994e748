import { toMs, type Duration } from './duration.ts';
import { PerdureError } from './errors.ts';
import type { Failure } from './failure.ts';

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
  /** Failures with one of these names or codes are final. */
  readonly nonRetryable?: readonly string[];
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
  readonly nonRetryable: readonly string[];
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
  check(
    Array.isArray(nonRetryable) && nonRetryable.every((entry) => typeof entry === 'string'),
    'nonRetryable must be an array of names or codes of errors',
    nonRetryable,
  );
  return {
    maxAttempts: maxAttempts === Infinity ? null : maxAttempts,
    backoff,
    initialDelayMs: toMs(policy.initialDelay ?? 1_000, 'retry.initialDelay'),
    maxDelayMs: toMs(policy.maxDelay ?? 60_000, 'retry.maxDelay'),
    factor,
    jitter,
    nonRetryable: [...nonRetryable],
  };
}

/** The wait before the next attempt, or `undefined` when the failure is final. `failures` counts this one. */
export function nextRetryDelayMs(
  policy: ResolvedRetryPolicy,
  failures: number,
  failure: Failure,
  random: () => number,
): number | undefined {
  if (policy.maxAttempts !== null && failures >= policy.maxAttempts) return undefined;
  if (failure.nonRetryable === true || isListed(policy, failure)) return undefined;
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

function isListed(policy: ResolvedRetryPolicy, failure: Failure): boolean {
  return policy.nonRetryable.some((entry) => entry === failure.name || entry === failure.code);
}

function check(holds: boolean, problem: string, value: unknown): void {
  if (holds) return;
  const shown = typeof value === 'object' && value !== null ? 'an object' : String(value);
  throw new PerdureError(
    'INVALID_OPTION',
    `Retry policy: ${problem}; it is ${shown.slice(0, 60)}.`,
  );
}
