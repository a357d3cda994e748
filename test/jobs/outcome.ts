/** How a promise ended. */
export interface Outcome {
  readonly value?: unknown;
  readonly error?: Error;
}

/** Waits for a promise from now on, so that no rejection goes unheard, and tells later how it ended. */
export function outcomeOf(promise: Promise<unknown>): Promise<Outcome> {
  return promise.then(
    (value) => ({ value }),
    (error: unknown) => ({ error: error as Error }),
  );
}
