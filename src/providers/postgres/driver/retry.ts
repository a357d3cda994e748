import { setTimeout as delay } from 'node:timers/promises';

/** How long a call is tried again, and when that is over early. */
export interface RetryBudget {
  readonly budgetMs: number;
  /** Aborted when the store closes: what fails from then on has failed. */
  readonly signal: AbortSignal;
}

const firstDelayMs = 5;
// A server that has come back is used again within half a second.
const maxDelayMs = 500;

/** Calls, and again with growing, jittered waits while an error is transient and the budget lasts; then throws it. */
export async function withinBudget<T>(
  { budgetMs, signal }: RetryBudget,
  isTransient: (error: unknown) => boolean,
  call: () => Promise<T>,
): Promise<T> {
  const deadline = performance.now() + budgetMs;
  for (let delayMs = firstDelayMs; ; delayMs = Math.min(delayMs * 2, maxDelayMs)) {
    try {
      return await call();
    } catch (error) {
      const pauseMs = delayMs * (0.5 + Math.random() / 2);
      if (!isTransient(error) || signal.aborted) throw error;
      if (performance.now() + pauseMs > deadline) throw error;
      // The error says more than an interrupted pause would.
      await delay(pauseMs, undefined, { signal }).catch(() => Promise.reject(error as Error));
    }
  }
}
