// A suspended machine and a corrected clock move the wall clock, but not the monotonic one.
const maxDriftMs = 100;

let originMs = performance.timeOrigin;

/** The current time in milliseconds since the epoch, with fractions. */
export function epochNow(): number {
  const monotonicMs = performance.now();
  followWallClock(monotonicMs);
  return originMs + monotonicMs;
}

/** Converts a time of `performance.now()` to milliseconds since the epoch. Follows steps of the wall clock. */
export function toEpochMs(monotonicMs: number): number {
  followWallClock(performance.now());
  return originMs + monotonicMs;
}

function followWallClock(monotonicNowMs: number): void {
  const driftMs = Date.now() - (originMs + monotonicNowMs);
  if (Math.abs(driftMs) > maxDriftMs) originMs += driftMs;
}
