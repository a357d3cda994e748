import { Deferred, DurablePromise, type DurableSource } from '../replay/durable-promise.ts';
import { toCanceledError, type Withdrawal } from '../replay/cancellation/cancel-scope.ts';

/** A durable promise over several others. Cancelling it rejects it and withdraws its members, unless it has settled. */
export class PromiseGroup<T> implements DurableSource {
  readonly kind = 'group';
  readonly #members: readonly unknown[];
  readonly #deferred = new Deferred<T>();
  #isSettled = false;

  constructor(members: readonly unknown[]) {
    this.#members = members;
    DurablePromise.attach(this.promise, this);
  }

  get promise(): DurablePromise<T> {
    return this.#deferred.promise;
  }

  /** Answers whether this call settled the group. */
  succeed(value: T): boolean {
    if (this.#isSettled) return false;
    this.#isSettled = true;
    this.#deferred.resolve(value);
    return true;
  }

  /** Answers whether this call settled the group. */
  fail(error: unknown): boolean {
    if (this.#isSettled) return false;
    this.#isSettled = true;
    this.#deferred.reject(error);
    return true;
  }

  withdraw(withdrawal: Withdrawal): void {
    if (!this.fail(toCanceledError(withdrawal))) return;
    for (const member of this.#members) withdraw(member, withdrawal);
  }
}

/** Gives a value up if it is a durable promise that still waits. */
export function withdraw(value: unknown, withdrawal: Withdrawal): void {
  DurablePromise.sourceOf(value)?.withdraw(withdrawal);
}
