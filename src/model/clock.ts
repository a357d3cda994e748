/** The clock that decides visibility, expiry and timers; tests bring their own. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Calls back once `now()` has reached `atMs`; returns how to take that back. */
  setAlarm(atMs: number, callback: () => void): () => void;
}

// setTimeout counts neither a suspended machine's hours nor a corrected clock, so long waits look again.
const maxTimeoutMs = 60_000;

// Taken before anything can patch the globals.
const { setTimeout: realSetTimeout, clearTimeout: realClearTimeout } = globalThis;
const realNow = Date.now;

/** The clock of the machine. */
export const systemClock: Clock = {
  now: () => realNow(),
  setAlarm(atMs, callback) {
    let timeout: NodeJS.Timeout;
    // A timeout may also end a millisecond before the clock says so.
    const check = () => {
      if (realNow() >= atMs) callback();
      else arm();
    };
    const arm = () => {
      const waitMs = Math.ceil(atMs - realNow());
      timeout = realSetTimeout(check, Math.min(Math.max(waitMs, 0), maxTimeoutMs));
    };
    arm();
    return () => realClearTimeout(timeout);
  },
};
