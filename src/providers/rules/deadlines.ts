/** When a new instance may start, and how long it may take from then on. */
export interface StartTimes {
  /** Delay from its creation. */
  readonly delayMs?: number;
  /** Instead of `delayMs`: when it may start. */
  readonly runAt?: number;
  readonly timeoutMs?: number;
}

/** When an instance created at `now` may start, in whole milliseconds. */
export function startsAt({ delayMs, runAt }: StartTimes, now: number): number {
  const wanted = delayMs === undefined ? (runAt ?? now) : now + delayMs;
  return Math.max(now, Math.ceil(wanted));
}

/** The timeout of an instance created at `now`, and when it passes. It counts from when the instance may start. */
export function deadlineOf(
  timeoutMs: number,
  times: StartTimes,
  now: number,
): { readonly timeoutMs: number; readonly dueAt: number } {
  const ms = Math.ceil(timeoutMs);
  return { timeoutMs: ms, dueAt: startsAt(times, now) + ms };
}

/** The reason of a cancel by a timeout. */
export function timeoutReason(timeoutMs: number): string {
  return `not finished within ${timeoutMs} ms, its timeout`;
}
