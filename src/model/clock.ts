import { platform } from './platform.ts';

/** Wall-clock time, monotonic time and timers. Tests pass their own implementation. */
export interface Clock {
  /** Milliseconds since the epoch, for visibility, expiry and timers. May jump when the system clock is set. */
  now(): number;
  /** Milliseconds since an arbitrary origin, for durations. Never jumps or decreases. */
  monotonic(): number;
  /** Calls back once `delayMs` have passed by `monotonic()`. Returns a function that cancels the timer. */
  setTimer(delayMs: number, callback: () => void): () => void;
}

// setTimeout is limited to 2^31 - 1 ms, so a long wait is split.
const maxTimeoutMs = 60_000;

/** The clock of this machine. */
export const systemClock: Clock = {
  now: () => platform.now(),
  monotonic: () => platform.monotonic(),
  setTimer(delayMs, callback) {
    const atMs = platform.monotonic() + delayMs;
    let timeout: NodeJS.Timeout;
    // setTimeout may call back up to a millisecond early.
    const check = () => {
      if (platform.monotonic() >= atMs) callback();
      else arm();
    };
    const arm = () => {
      const waitMs = Math.ceil(atMs - platform.monotonic());
      timeout = platform.setTimeout(check, Math.min(Math.max(waitMs, 0), maxTimeoutMs));
    };
    arm();
    return () => platform.clearTimeout(timeout);
  },
};
