import type { Clock } from '../../model/clock.ts';
import { ProviderError } from '../../model/failures/errors.ts';
import type { Logger } from '../../model/logger.ts';
import { platform } from '../../model/platform.ts';

const firstDelayMs = 10;
const maxDelayMs = 1_000;

/** How a store call is retried. */
export interface ProviderRetry {
  readonly clock: Clock;
  readonly logger: Logger;
  /** No retry after this monotonic time: by then the leases have expired. */
  readonly deadline: number;
}

/**
 * Calls the store, and retries retryable errors with exponential, jittered backoff until the deadline.
 * Repeating a fenced write is safe: if the first call committed, the token is gone and the second changes nothing.
 */
export async function withRetries<T>(retry: ProviderRetry, call: () => Promise<T>): Promise<T> {
  for (let delayMs = firstDelayMs; ; delayMs = Math.min(delayMs * 2, maxDelayMs)) {
    try {
      return await call();
    } catch (error) {
      const late = retry.clock.monotonic() + delayMs >= retry.deadline;
      if (!(error instanceof ProviderError) || !error.retryable || late) throw error;
      retry.logger.warn({ error, retryInMs: delayMs }, 'store call failed, will retry');
      await pause(retry.clock, delayMs * (0.5 + platform.random() / 2));
    }
  }
}

/** Resolves after `ms`, or immediately when the signal aborts. */
export function pause(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) {
      resolve();
      return;
    }
    const cancel = clock.setTimer(ms, done);
    signal?.addEventListener('abort', done, { once: true });
    function done(): void {
      cancel();
      signal?.removeEventListener('abort', done);
      resolve();
    }
  });
}
