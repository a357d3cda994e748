// Taken before anything can patch the globals: the engine must never meet its own guards.
const realNextTick = process.nextTick.bind(process);
const realSetImmediate = globalThis.setImmediate;

const resolved = Promise.resolve();

/**
 * Queues a callback for when the microtask queue is empty. Only works from inside a microtask: a tick queued
 * from a tick or a macrotask runs before the microtasks. Measured at about 1.4 µs, against 6 for two immediates.
 */
export const afterMicrotasks: (callback: () => void) => void = realNextTick;

/** Continues inside a microtask, wherever the caller came from. */
export function enterMicrotask(): Promise<void> {
  return resolved;
}

/** Lets timers, I/O and other instances run, and pending rejections be reported. */
export function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => {
    realSetImmediate(resolve);
  });
}
