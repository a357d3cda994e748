import { CanceledError, PerdureError } from '../model/failures/errors.ts';
import { toCanceledError, type Withdrawal } from '../replay/cancellation/withdrawal.ts';
import { Deferred, DurablePromise, type DurableSource } from '../replay/durable-promise.ts';
import { Operation } from '../replay/operation.ts';

/** What becomes of the losers. */
interface RaceParams<T> {
  readonly members: readonly unknown[];
  readonly toValue: (index: number, value: unknown) => T;
  readonly keepLosers: boolean | undefined;
  /** Says which member failed; absent: the error says nothing about it. */
  readonly keyOf?: (index: number) => string | number | undefined;
}

/** A durable promise over several others, whose `cancel` reaches all that are still pending. */
export function group<T>(members: readonly unknown[], promise: Promise<T>): DurablePromise<T> {
  const all = new PromiseGroup<T>(members);
  promise.then(
    (value) => all.succeed(value),
    (error: unknown) => all.fail(error),
  );
  return all.promise;
}

/** Settles like the first member that settles, and withdraws the others; ties go to the first in the list. */
export function firstOf<T>(params: RaceParams<T>): DurablePromise<T> {
  const { members, toValue, keepLosers, keyOf } = params;
  if (members.length === 0) {
    throw new PerdureError(
      'INVALID_INPUT',
      'race and select need at least one promise: with none they would wait for ever.',
    );
  }
  const first = new PromiseGroup<T>(members);
  const losers = keepLosers === true ? [] : members;
  members.forEach((member, index) => {
    toPromise(member).then(
      (value: unknown) => first.succeed(toValue(index, value)) && withdrawLosers(losers, member),
      (error: unknown) => {
        if (!first.fail(error)) return;
        setSelectKey(error, keyOf?.(index));
        withdrawLosers(losers, member);
      },
    );
  });
  return first.promise;
}

/** Adds the key of the member that failed. The error stays the same object; one that cannot be changed goes without. */
function setSelectKey(error: unknown, key: string | number | undefined): void {
  if (key === undefined || typeof error !== 'object' || error === null) return;
  Reflect.defineProperty(error, 'selectKey', {
    value: key,
    configurable: true,
    writable: true,
    enumerable: false,
  });
}

/** Settles like the first member that succeeds, and withdraws the others; fails like `Promise.any` if none does. */
export function firstSuccessOf<T>({
  members,
  toValue,
  keepLosers,
}: RaceParams<T>): DurablePromise<T> {
  const first = new PromiseGroup<T>(members);
  const losers = keepLosers === true ? [] : members;
  const errors: unknown[] = Array.from(members);
  let failed = 0;
  const failIfAllDid = (): void => {
    if (failed < members.length) return;
    first.fail(new AggregateError(errors, 'All promises were rejected'));
  };
  members.forEach((member, index) => {
    toPromise(member).then(
      (value: unknown) => first.succeed(toValue(index, value)) && withdrawLosers(losers, member),
      (error: unknown) => {
        errors[index] = error;
        failed += 1;
        failIfAllDid();
      },
    );
  });
  failIfAllDid();
  return first.promise;
}

/**
 * Settles like an operation, which is withdrawn when its timer fires first, and then rejects with `TIMEOUT`. One
 * that is canceled as `wait` settles when its work has stopped, perhaps with a result after all.
 */
export function withDeadline<T>(params: {
  readonly operation: DurablePromise<T>;
  readonly timer: DurablePromise<void>;
  readonly message: string;
}): DurablePromise<T> {
  const { operation, timer, message } = params;
  const result = new Deferred<T>();
  DurablePromise.attach(result.promise, {
    kind: 'group',
    withdraw: (withdrawal) => {
      withdraw(operation, withdrawal);
      withdraw(timer, withdrawal);
    },
  });
  let isLate = false;
  const stopTimer = (): void => withdraw(timer, { trigger: 'race_lost', reason: 'race_lost' });
  const succeed = (value: T): void => {
    result.resolve(value);
    stopTimer();
  };
  const fail = (error: unknown): void => {
    result.reject(isLate && isTimeout(error) ? new PerdureError('TIMEOUT', message) : error);
    stopTimer();
  };
  const expire = (): void => {
    isLate = true;
    withdraw(operation, { trigger: 'timeout', reason: 'timeout' });
  };
  const source = DurablePromise.sourceOf(operation);
  if (source instanceof Operation) source.shown = result.promise;
  operation.then(succeed, fail);
  // When the timer is withdrawn, the operation decides.
  timer.then(expire, () => undefined);
  return result.promise;
}

// Not Promise.resolve(): it would wrap a durable promise and let a later native one overtake it.
function toPromise(member: unknown): Promise<unknown> {
  return member instanceof Promise ? (member as Promise<unknown>) : Promise.resolve(member);
}

function isTimeout(error: unknown): boolean {
  return error instanceof CanceledError && error.trigger === 'timeout';
}

function withdrawLosers(members: readonly unknown[], winner: unknown): void {
  const byTimer = DurablePromise.sourceOf(winner)?.kind === 'timer';
  const withdrawal: Withdrawal = {
    trigger: 'race_lost',
    reason: byTimer ? 'race_lost:timeout' : 'race_lost',
  };
  for (const member of members) if (member !== winner) withdraw(member, withdrawal);
}

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
