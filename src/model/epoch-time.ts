// A suspended machine and a corrected clock move the wall clock, but not the monotonic one.
const maxDriftMs = 100;

let originMs = performance.timeOrigin;

/** Converts a time of `performance.now()` to milliseconds since the epoch. Follows steps of the wall clock. */
export function toEpochMs(monotonicMs: number): number {
  const driftMs = Date.now() - (originMs + performance.now());
  if (Math.abs(driftMs) > maxDriftMs) originMs += driftMs;
  return originMs + monotonicMs;
}
