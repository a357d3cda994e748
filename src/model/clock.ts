/** Wall time for what is due, and monotonic time for how long things take; tests bring their own. */
export interface Clock {
  /** Milliseconds since the epoch: decides visibility, expiry and timers. A correction of the clock may step it. */
  now(): number;
  /** Milliseconds since an arbitrary moment: measures durations. Never steps and never goes back. */
  monotonic(): number;
  /** Calls back once `delayMs` have passed by `monotonic()`; returns how to cancel that. */
  setTimer(delayMs: number, callback: () => void): () => void;
}

// The limit of setTimeout is 2^31 - 1 ms; a long wait is split.
const maxTimeoutMs = 60_000;

// Taken before anything can patch the globals.
const { setTimeout: realSetTimeout, clearTimeout: realClearTimeout } = globalThis;
const realNow = Date.now;
const realMonotonic = performance.now.bind(performance);

/** The clock of the machine. */
export const systemClock: Clock = {
  now: () => realNow(),
  monotonic: () => realMonotonic(),
  setTimer(delayMs, callback) {
    const atMs = realMonotonic() + delayMs;
    let timeout: NodeJS.Timeout;
    // setTimeout may call back up to a millisecond early.
    const check = () => {
      if (realMonotonic() >= atMs) callback();
      else arm();
    };
    const arm = () => {
      const waitMs = Math.ceil(atMs - realMonotonic());
      timeout = realSetTimeout(check, Math.min(Math.max(waitMs, 0), maxTimeoutMs));
    };
    arm();
    return () => realClearTimeout(timeout);
  },
};
