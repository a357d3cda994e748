/** Resolves when the signal aborts. */
export function untilInterrupted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  // The signal alone does not keep the process alive.
  const alive = setInterval(() => undefined, 60_000);
  return new Promise((resolve) => {
    signal.addEventListener(
      'abort',
      () => {
        clearInterval(alive);
        resolve();
      },
      { once: true },
    );
  });
}
