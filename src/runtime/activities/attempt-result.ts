import type { CanceledError, PerdureError } from '../../model/failures/errors.ts';
import { platformFailure, type Failure } from '../../model/failures/failure.ts';
import { nextRetryDelayMs } from '../../model/retry-policy.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { CommitResult } from '../../providers/contract/turn.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import type { Outcome } from '../turns/completions.ts';
import type { WorkOptions } from './work-handlers.ts';
import { platform } from '../../model/platform.ts';

/** The result of one attempt: an outcome, a retry, or a release without an outcome. */
export type AttemptResult =
  | Outcome
  /** Committed by `ctx.transaction`, together with its ack. */
  | {
      readonly kind: 'completed';
      readonly payload: Payload | null;
      readonly commit: CommitResult;
    }
  | {
      readonly kind: 'retry';
      readonly failure: Failure;
      readonly delayMs: number;
      /** `null`: no limit. */
      readonly maxAttempts: number | null;
    }
  | { readonly kind: 'lost' }
  | { readonly kind: 'deleted' }
  | {
      readonly kind: 'abandoned';
      /** Why the codec could not encode the result of a transaction. */
      readonly unencoded?: PerdureError | undefined;
    };

/** Applies the retry policy to a failed attempt. `classes` are the names of the classes of the error. */
export function toFailedResult(
  { failures }: WorkItem,
  { retry }: WorkOptions,
  failure: Failure,
  classes: readonly string[],
): AttemptResult {
  const attempts = failures + 1;
  const delayMs =
    retry === undefined
      ? undefined
      : nextRetryDelayMs(retry, attempts, { failure, classes }, () => platform.random());
  if (retry === undefined || delayMs === undefined)
    return { kind: 'failed', failure: attempts > 1 ? { ...failure, attempts } : failure };
  return { kind: 'retry', failure, delayMs, maxAttempts: retry.maxAttempts };
}

/** The failure of an attempt that its own timeout aborted. */
export function timeoutFailure(
  { failures }: WorkItem,
  label: string,
  attemptTimeoutMs: number,
): Failure {
  const message = `Attempt ${failures + 1} of ${label} took longer than ${attemptTimeoutMs} ms.`;
  return { ...platformFailure('TIMEOUT', message), nonRetryable: false };
}

/** Whether the worker stops the attempt, and another worker continues the work. */
export function isOfWorker({ trigger }: CanceledError): boolean {
  return trigger === 'shutdown' || trigger === 'lease_lost';
}
