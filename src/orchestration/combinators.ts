import { CanceledError, PerdureError } from '../model/failures/errors.ts';
import { toCanceledError, type Withdrawal } from '../replay/cancellation/cancel-scope.ts';
import { Deferred, DurablePromise, type DurableSource } from '../replay/durable-promise.ts';
import { Operation } from '../replay/operations.ts';

/** A race of promises. */
interface RaceParams<T> {
  readonly members: readonly unknown[];
  readonly toValue: (index: number, value: unknown) => T;
  readonly keepLosers: boolean | undefined;
  /** Returns the `selectKey` of an error. Absent: errors get none. */
  readonly keyOf?: (index: number) => string | number | undefined;
}

/** Returns a durable promise whose `cancel` withdraws all pending members. */
export function group<T>(members: readonly unknown[], promise: Promise<T>): DurablePromise<T> {
  const all = new PromiseGroup<T>(members);
  promise.then(
    (value) => all.succeed(value),
    (error: unknown) => all.fail(error),
  );
  return all.promise;
}

/** Settles like the first member that settles, and withdraws the others. The first in the list wins a tie. */
export function firstOf<T>(params: RaceParams<T>): DurablePromise<T> {
  const { members, toValue, keepLosers, keyOf } = params;
  if (members.length === 0) {
    throw new PerdureError(
      'INVALID_INPUT',
      'ctx.race() and ctx.select() require at least one promise: with none they would never settle.',
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

/** Sets `selectKey` on the error of the failed member, unless the error is frozen. */
function setSelectKey(error: unknown, key: string | number | undefined): void {
  if (key === undefined || typeof error !== 'object' || error === null) return;
  Reflect.defineProperty(error, 'selectKey', {
    value: key,
    configurable: true,
    writable: true,
    enumerable: false,
  });
}

/** Resolves with the first success, and withdraws the others. Rejects like `Promise.any` if all fail. */
export function firstSuccessOf<T>({
  members,
  toValue,
  keepLosers,
}: RaceParams<T>): DurablePromise<T> {
  const first = new PromiseGroup<T>(members);
  const losers = keepLosers === true ? [] : members;
  const errors: unknown[] = Array.from(members);
  let failed = 0;
  const rejectIfAllFailed = (): void => {
    if (failed < members.length) return;
    first.fail(new AggregateError(errors, 'All promises were rejected'));
  };
  members.forEach((member, index) => {
    toPromise(member).then(
      (value: unknown) => first.succeed(toValue(index, value)) && withdrawLosers(losers, member),
      (error: unknown) => {
        errors[index] = error;
        failed += 1;
        rejectIfAllFailed();
      },
    );
  });
  rejectIfAllFailed();
  return first.promise;
}

/**
 * Settles like `operation`. If `timer` fires first, the operation is withdrawn, and the promise rejects with `TIMEOUT`.
 * With `cancellation: 'wait'`, it settles once the handler has stopped, possibly with a result.
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
  if (source instanceof Operation) source.exposed = result.promise;
  operation.then(succeed, fail);
  // A withdrawn timer rejects: the operation alone settles the promise then.
  timer.then(expire, () => undefined);
  return result.promise;
}

// Promise.resolve() would wrap a durable promise, and a native promise later in the list could overtake it.
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

/** A durable promise over several members. Its `cancel` rejects it and withdraws its members, unless it has settled. */
class PromiseGroup<T> implements DurableSource {
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

  /** Returns whether this call settled the group. */
  succeed(value: T): boolean {
    if (this.#isSettled) return false;
    this.#isSettled = true;
    this.#deferred.resolve(value);
    return true;
  }

  /** Returns whether this call settled the group. */
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

/** Withdraws the operation of a durable promise. Ignores other values, and settled promises. */
function withdraw(value: unknown, withdrawal: Withdrawal): void {
  DurablePromise.sourceOf(value)?.withdraw(withdrawal);
}
