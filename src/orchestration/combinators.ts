import { PerdureError } from '../model/errors.ts';
import { Deferred, DurablePromise, type Withdrawal } from '../replay/durable-promise.ts';

/** A durable promise over several others, whose `cancel` reaches all that are still pending. */
export function group<T>(members: readonly unknown[], promise: Promise<T>): DurablePromise<T> {
  const deferred = deferredGroup<T>(members);
  promise.then(deferred.resolve, (error: unknown) => deferred.reject(error));
  return deferred.promise;
}

/** Settles like the first member that settles, and withdraws the others; ties go to the first in the list. */
export function firstOf<T>(
  members: readonly unknown[],
  toValue: (index: number, value: unknown) => T,
): DurablePromise<T> {
  if (members.length === 0) {
    throw new PerdureError(
      'INVALID_INPUT',
      'race and select need at least one promise: with none they would wait for ever.',
    );
  }
  const deferred = deferredGroup<T>(members);
  let isSettled = false;
  const settle = (index: number, action: () => void): void => {
    if (isSettled) return;
    isSettled = true;
    action();
    withdrawLosers(members, index);
  };
  members.forEach((member, index) => {
    // Not Promise.resolve(): it would wrap a durable promise and let a later native one overtake it.
    const promise = member instanceof Promise ? member : Promise.resolve(member);
    promise.then(
      (value: unknown) => settle(index, () => deferred.resolve(toValue(index, value))),
      (error: unknown) => settle(index, () => deferred.reject(error)),
    );
  });
  return deferred.promise;
}

/** Settles like an operation, or rejects with `TIMEOUT` when its timer fires first; either withdraws the other. */
export function withDeadline<T>(params: {
  readonly operation: DurablePromise<T>;
  readonly timer: DurablePromise<void>;
  readonly message: string;
}): DurablePromise<T> {
  const { operation, timer, message } = params;
  const deferred = deferredGroup<T>([operation, timer]);
  const expire = (): void => {
    deferred.reject(new PerdureError('TIMEOUT', message));
    withdraw(operation, { trigger: 'timeout' });
  };
  const stopTimer = (): void => withdraw(timer, { trigger: 'race_lost' });
  const succeed = (value: T): void => {
    deferred.resolve(value);
    stopTimer();
  };
  const fail = (error: unknown): void => {
    deferred.reject(error);
    stopTimer();
  };
  operation.then(succeed, fail);
  timer.then(expire, () => undefined);
  return deferred.promise;
}

function deferredGroup<T>(members: readonly unknown[]): Deferred<T> {
  const deferred = new Deferred<T>();
  DurablePromise.attach(deferred.promise, {
    kind: 'group',
    withdraw: (withdrawal) => members.forEach((member) => withdraw(member, withdrawal)),
  });
  return deferred;
}

function withdrawLosers(members: readonly unknown[], winner: number): void {
  const isTimeout = DurablePromise.sourceOf(members[winner])?.kind === 'timer';
  const withdrawal: Withdrawal = {
    trigger: 'race_lost',
    ...(isTimeout && { detail: 'timeout' }),
  };
  members.forEach((member, index) => {
    if (index !== winner) withdraw(member, withdrawal);
  });
}

function withdraw(member: unknown, withdrawal: Withdrawal): void {
  DurablePromise.sourceOf(member)?.withdraw(withdrawal);
}
