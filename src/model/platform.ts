/** The clocks, timers, randomness and identity of this process. Everything nondeterministic in the engine comes from here. */
export interface Platform {
  /** Wall-clock time, in milliseconds since the epoch. */
  now(): number;
  /** Monotonic time, in milliseconds since an arbitrary origin. */
  monotonic(): number;
  /** Time for which this process was not suspended, in milliseconds; `undefined` without a measurement. */
  awake(): number | undefined;
  /** The id of the process whose call a store runs; `undefined`: the store has its own. */
  processId(): string | undefined;
  /** A number in [0, 1). Not for secrets. */
  random(): number;
  /** Fills an array with random bytes, for tokens and ids. */
  fillRandom(bytes: Uint8Array<ArrayBuffer>): void;
  /** Calls back in a later iteration of the event loop. */
  setImmediate(callback: () => void): void;
  setTimeout(callback: () => void, ms: number): NodeJS.Timeout;
  clearTimeout(timeout: NodeJS.Timeout | undefined): void;
  setInterval(callback: () => void, ms: number): NodeJS.Timeout;
  clearInterval(interval: NodeJS.Timeout | undefined): void;
}

// Captured before the globals are patched. Web Crypto, because browsers create ids too.
const { setImmediate, setTimeout, clearTimeout, setInterval, clearInterval } = globalThis;
const { random } = Math;
const { now } = Date;
const fillRandom = globalThis.crypto.getRandomValues.bind(globalThis.crypto);

const system: Platform = {
  now: () => now(),
  monotonic: performance.now.bind(performance),
  awake: () => undefined,
  processId: () => undefined,
  random: () => random(),
  fillRandom: (bytes) => void fillRandom(bytes),
  setImmediate: (callback) => void setImmediate(callback),
  setTimeout: (callback, ms) => setTimeout(callback, ms),
  clearTimeout: (timeout) => clearTimeout(timeout),
  setInterval: (callback, ms) => setInterval(callback, ms),
  clearInterval: (interval) => clearInterval(interval),
};

/** The platform that the engine uses. Read its functions at each call: a simulation replaces them. */
export const platform: Platform = { ...system };

/** Replaces functions of the platform in this process, for a simulation. Returns a function that restores the system's. */
export function replacePlatform(replacement: Partial<Platform>): () => void {
  Object.assign(platform, system, replacement);
  return () => void Object.assign(platform, system);
}

/** Resolves after `ms`, or rejects with the reason of the signal. */
export function delay(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) return reject(signal.reason as Error);
    const abort = (): void => {
      platform.clearTimeout(timeout);
      reject(signal?.reason as Error);
    };
    const timeout = platform.setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve();
    }, ms);
    signal?.addEventListener('abort', abort, { once: true });
  });
}

/** Resolves in a later iteration of the event loop. */
export function nextIteration(): Promise<void> {
  return new Promise((resolve) => platform.setImmediate(resolve));
}
