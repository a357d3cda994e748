import { cleanReason } from '../model/cancel.ts';
import type { Withdrawal } from './cancellation/cancel-scope.ts';

/** What stands behind a durable promise: one operation, a group of them, or a scope. */
export interface DurableSource {
  readonly kind: 'activity' | 'timer' | 'event' | 'child' | 'detached' | 'group' | 'scope';
  withdraw(withdrawal: Withdrawal): void;
}

// The one method that every use of a promise ends in.
const [settlement] = ['then'] as const;

/** What the handler of a rejection is given, as native promises type it. */
type Reason = Parameters<NonNullable<Parameters<Promise<unknown>['then']>[1]>>[0];

/**
 * The promise of a durable operation. It counts as handled from the start, so a branch that fails while the
 * code awaits something else never becomes an unhandled rejection.
 */
export class DurablePromise<T> extends Promise<T> {
  #source: DurableSource | undefined;
  #isUsed = false;

  // An `await`, every combinator and every native method of promises goes through here.
  override [settlement]<Fulfilled = T, Rejected = never>(
    onFulfilled?: ((value: T) => Fulfilled | PromiseLike<Fulfilled>) | null,
    onRejected?: ((reason: Reason) => Rejected | PromiseLike<Rejected>) | null,
  ): Promise<Fulfilled | Rejected> {
    this.#isUsed = true;
    return super.then(onFulfilled, onRejected);
  }

  // What `then` returns is an ordinary promise: there is no operation behind it that could be canceled.
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  /**
   * Gives up what is pending: an operation, a group or a scope. It rejects with a `CanceledError`, a scope once its
   * code has ended; a call or child that is canceled as `wait` settles when the work has stopped. Does nothing
   * once it has settled.
   */
  cancel(reason?: string): void {
    this.#isUsed = true;
    this.#source?.withdraw({ trigger: 'cancel', reason: cleanReason(reason) });
  }

  /** Whether the promise was awaited, handed on, or canceled. */
  static isUsed(promise: DurablePromise<unknown>): boolean {
    return promise.#isUsed;
  }

  /** Counts a rejection as handled, without counting the promise as used. */
  static handle(promise: DurablePromise<unknown>): void {
    void Promise.prototype.then.call(promise, undefined, ignore);
  }

  /** The promise of a source; for the engine and its combinators. */
  static attach(promise: DurablePromise<unknown>, source: DurableSource): void {
    promise.#source = source;
  }

  /** What stands behind a value, if it is a durable promise. */
  static sourceOf(value: unknown): DurableSource | undefined {
    return value instanceof DurablePromise ? value.#source : undefined;
  }

  /** A promise for code whose execution is over. */
  static never<T>(): DurablePromise<T> {
    return new DurablePromise<T>(ignore);
  }

  /** A promise that is refused at once, and counts as handled. */
  static rejected<T>(reason: unknown): DurablePromise<T> {
    const deferred = new Deferred<T>();
    deferred.reject(reason);
    return deferred.promise;
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
    DurablePromise.handle(this.promise);
    this.#reject(reason);
  }
}

function ignore(): void {
  // Nothing to do: the code that awaits the promise gets the reason as well.
}
