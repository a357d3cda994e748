import { PerdureError } from '../../model/failures/errors.ts';
import { DurablePromise } from '../durable-promise.ts';
import type { Operation } from '../operation.ts';

/** How many settled operations are kept before those that have been used meanwhile are let go. */
const firstSweep = 64;

/**
 * The operations of an execution whose promises the code has neither awaited, nor handed to a combinator, nor canceled.
 * Nothing is kept of an operation that is used before it settles, as nearly all are.
 *
 * Left out is what may be dropped on purpose: operations in a scope or shield, which end with it, and operations of type
 * `abandon`, detached starts among them, whose work goes on.
 */
export class Unawaited {
  /** Settled before they were used; some may have been used since. */
  #settled: Operation[] = [];
  #sweepAt = firstSweep;

  /** An operation is no longer outstanding. */
  settle(operation: Operation): void {
    if (!isUnawaited(operation)) return;
    this.#settled.push(operation);
    if (this.#settled.length < this.#sweepAt) return;
    this.#settled = this.#settled.filter(isUnawaited);
    this.#sweepAt = Math.max(firstSweep, this.#settled.length * 2);
  }

  /** What was never awaited, in words and in the order of the calls. */
  describe(outstanding: Iterable<Operation>): readonly string[] {
    return [...this.#settled, ...outstanding]
      .filter(isUnawaited)
      .sort((one, other) => one.id - other.id)
      .map(({ kind, name, id }) =>
        name === '' ? `${kind} (operation ${id})` : `${kind} ${JSON.stringify(name)}`,
      );
  }
}

function isUnawaited({ shown, cancellation, scope }: Operation): boolean {
  return !DurablePromise.isUsed(shown) && cancellation !== 'abandon' && scope.outer === undefined;
}

/** The error of an orchestration that ended before it used the outcome of these operations. */
export function neverAwaited(instanceId: string, operations: readonly string[]): PerdureError {
  return new PerdureError(
    'NEVER_AWAITED',
    `Instance ${JSON.stringify(instanceId)} ended without awaiting ${operations.join(', ')}. Await each durable operation, hand it to a combinator, or call it with { cancellation: 'abandon' } if its work is to go on.`,
  );
}
