import { CanceledError, type CancelTrigger } from '../model/errors.ts';

/** Why a pending operation is given up. */
export interface Withdrawal {
  readonly trigger: CancelTrigger;
  readonly detail?: string | undefined;
}

/** What the code that awaits a withdrawn operation gets. */
export function toCanceledError({ trigger, detail }: Withdrawal): CanceledError {
  return new CanceledError(detail ?? trigger, trigger);
}

/** What stands behind a durable promise: one operation, or a group of them. */
export interface DurableSource {
  readonly kind: 'activity' | 'timer' | 'event' | 'child' | 'group';
  withdraw(withdrawal: Withdrawal): void;
}

/**
 * The promise of a durable operation. It counts as handled from the start, so a branch that fails while the
 * code awaits something else never becomes an unhandled rejection.
 */
export class DurablePromise<T> extends Promise<T> {
  #source: DurableSource | undefined;

  // What `then` returns is an ordinary promise: there is no operation behind it that could be canceled.
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  /**
   * Gives a pending activity, timer or event wait up and rejects this promise with a `CanceledError`; does
   * nothing once it has settled. A child is left alone and stays awaited.
   */
  cancel(reason?: string): void {
    this.#source?.withdraw({ trigger: 'cancel', detail: reason });
  }

  /** The promise of a source; for the engine and its combinators. */
  static attach(promise: DurablePromise<unknown>, source: DurableSource): void {
    promise.#source = source;
  }

  /** What stands behind a value, if it is a durable promise. */
  static sourceOf(value: unknown): DurableSource | undefined {
    return value instanceof DurablePromise ? value.#source : undefined;
  }
}

/** A durable promise together with the means to settle it. */
export class Deferred<T> {
  readonly promise: DurablePromise<T>;
  readonly resolve: (value: T) => void;
  readonly #reject: (reason: unknown) => void;

  constructor() {
    let resolvePromise: (value: T) => void = ignore;
    let rejectPromise: (reason: unknown) => void = ignore;
    this.promise = new DurablePromise<T>((resolve, reject) => {
      resolvePromise = resolve;
      rejectPromise = reject;
    });
    this.resolve = resolvePromise;
    this.#reject = rejectPromise;
  }

  reject(reason: unknown): void {
    // Handled only now, so that the many promises that never fail do not pay for it.
    void this.promise.then(undefined, ignore);
    this.#reject(reason);
  }
}

function ignore(): void {
  // Nothing to do: the code that awaits the promise gets the reason as well.
}
