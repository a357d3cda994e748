/** A promise that a test resolves with `open()`. */
export interface Gate<Value = void> {
  readonly opened: Promise<Value>;
  open(value: Value): void;
}

export function makeGate<Value = void>(): Gate<Value> {
  const { promise, resolve } = Promise.withResolvers<Value>();
  return { opened: promise, open: (value) => resolve(value) };
}

/** Resolves once the signal is aborted. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
