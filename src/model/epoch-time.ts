import { platform } from './platform.ts';

// A suspended machine and a corrected clock move the wall clock, but not the monotonic one.
const maxDriftMs = 100;

let originMs = performance.timeOrigin;

/** The current time in milliseconds since the epoch, with fractions. */
export function epochNow(): number {
  const monotonicMs = platform.monotonic();
  followWallClock(monotonicMs);
  return originMs + monotonicMs;
}

/** Converts a time of `platform.monotonic()` to milliseconds since the epoch. Follows steps of the wall clock. */
export function toEpochMs(monotonicMs: number): number {
  followWallClock(platform.monotonic());
  return originMs + monotonicMs;
}

function followWallClock(monotonicNowMs: number): void {
  const driftMs = Date.now() - (originMs + monotonicNowMs);
  if (Math.abs(driftMs) > maxDriftMs) originMs += driftMs;
}
