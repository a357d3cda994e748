import type { Clock } from '../../model/clock.ts';

/**
 * The monotonic time from which a lease counts, for a claim that the store made at `nowMs` by its clock.
 *
 * A fetch may wait long before it claims, so the store's clock tells how old the claim is. Our view of that clock may be
 * wrong by any amount, but a claim is never older than the call that asked for it (`askedAt`).
 */
export function claimedSince(clock: Clock, nowMs: number, askedAt: number): number {
  const monotonicMs = clock.monotonic();
  const ageMs = Math.max(0, clock.now() - nowMs);
  return Math.max(monotonicMs - ageMs, askedAt);
}
