import { PerdureError } from '../model/errors.ts';
import { DurablePromise, type Withdrawal } from '../replay/durable-promise.ts';
import { PromiseGroup, withdraw } from './promise-group.ts';

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
  const first = new PromiseGroup<T>(members);
  members.forEach((member, index) => {
    // Not Promise.resolve(): it would wrap a durable promise and let a later native one overtake it.
    const promise = member instanceof Promise ? member : Promise.resolve(member);
    promise.then(
      (value: unknown) => first.succeed(toValue(index, value)) && withdrawLosers(members, index),
      (error: unknown) => first.fail(error) && withdrawLosers(members, index),
    );
  });
  return first.promise;
}

/** Settles like an operation, or rejects with `TIMEOUT` when its timer fires first; either withdraws the other. */
export function withDeadline<T>(params: {
  readonly operation: DurablePromise<T>;
  readonly timer: DurablePromise<void>;
  readonly message: string;
}): DurablePromise<T> {
  const { operation, timer, message } = params;
  const both = new PromiseGroup<T>([operation, timer]);
  const stopTimer = (): void => withdraw(timer, { trigger: 'race_lost' });
  const stopOperation = (): void => withdraw(operation, { trigger: 'timeout' });
  operation.then(
    (value) => both.succeed(value) && stopTimer(),
    (error: unknown) => both.fail(error) && stopTimer(),
  );
  timer.then(
    () => both.fail(new PerdureError('TIMEOUT', message)) && stopOperation(),
    // The timer was withdrawn: the operation decides.
    () => undefined,
  );
  return both.promise;
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
