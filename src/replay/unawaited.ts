import { PerdureError } from '../model/errors.ts';
import { DurablePromise, type PromiseWatcher } from './durable-promise.ts';
import { Operation } from './operation.ts';

/**
 * The operations of an execution whose promises the code has neither awaited, nor handed to a combinator, nor canceled.
 *
 * Left out is what may be dropped on purpose: operations in a scope or shield, which end with it, and operations of type
 * `abandon`, detached starts among them, whose work goes on.
 */
export class Unawaited implements PromiseWatcher {
  readonly #operations = new Map<DurablePromise<unknown>, Operation>();

  /** Watches the promise that the code is given for an operation. */
  add(promise: DurablePromise<unknown>, source: unknown): void {
    if (!(source instanceof Operation)) return;
    if (source.cancellation === 'abandon' || source.scope.outer !== undefined) return;
    this.#operations.set(promise, source);
    DurablePromise.watch(promise, this);
  }

  used(promise: DurablePromise<unknown>): void {
    this.#operations.delete(promise);
  }

  /** What was never awaited, in words and in the order of the calls. */
  describe(): readonly string[] {
    return [...this.#operations.values()].map(({ kind, name, id }) =>
      name === '' ? `${kind} (operation ${id})` : `${kind} ${JSON.stringify(name)}`,
    );
  }

  get size(): number {
    return this.#operations.size;
  }
}

/** The code has ended, and nobody will ever see the outcome of these operations. */
export function neverAwaited(instanceId: string, operations: readonly string[]): PerdureError {
  return new PerdureError(
    'NEVER_AWAITED',
    `Instance ${JSON.stringify(instanceId)} ended without awaiting ${operations.join(', ')}. Await each durable operation, hand it to a combinator, or call it with { cancellation: 'abandon' } if its work is to go on.`,
  );
}
