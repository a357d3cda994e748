/** The outcome of a promise. */
export interface Outcome {
  readonly value?: unknown;
  readonly error?: Error;
}

/** Resolves with the outcome of a promise. Attached immediately, so that no rejection is unhandled. */
export function outcomeOf(promise: Promise<unknown>): Promise<Outcome> {
  return promise.then(
    (value) => ({ value }),
    (error: unknown) => ({ error: error as Error }),
  );
}
