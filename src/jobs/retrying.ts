import { systemClock, type Clock } from '../model/clock.ts';
import { isPerdureError, type ProviderError } from '../model/failures/errors.ts';
import { platform } from '../model/platform.ts';

const firstPauseMs = 5;
const longestPauseMs = 5_000;

/** When to stop retrying, and the clock for the pauses. */
export interface RetryOptions {
  readonly signal: AbortSignal;
  /** Default: the system clock, because a busy store does not follow an injected clock. */
  readonly clock?: Clock | undefined;
}

/** Retries a call while its error is retryable, with exponential backoff and jitter, until the signal aborts. */
export async function retrying<Value>(
  options: RetryOptions,
  call: () => Promise<Value>,
): Promise<Value> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await call();
    } catch (error) {
      if (options.signal.aborted || !isRetryable(error)) throw error;
    }
    const limitMs = Math.min(longestPauseMs, firstPauseMs * 2 ** attempt);
    // Jitter: clients of one server must not reconnect at the same time.
    await pause(options, limitMs * (0.5 + platform.random() / 2));
  }
}

/** Whether a repeated call may succeed. Calls are idempotent, so an unknown outcome is retryable too. */
function isRetryable(error: unknown): boolean {
  if (!isPerdureError(error)) return false;
  const { retryable, outcomeUnknown } = error as Partial<ProviderError>;
  return retryable === true || outcomeUnknown === true;
}

/** Resolves after `ms`, or when the signal aborts. */
export function pause({ signal, clock = systemClock }: RetryOptions, ms: number): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const end = (): void => {
      cancelTimer();
      signal.removeEventListener('abort', end);
      resolve();
    };
    const cancelTimer = clock.setTimer(ms, end);
    signal.addEventListener('abort', end);
  });
}
