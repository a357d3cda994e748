import type { CancellationType } from '../model/cancel.ts';
import type { CancelScope } from './cancellation/cancel-scope.ts';
import { Deferred, DurablePromise, type DurableSource } from './durable-promise.ts';
import type { Withdrawal } from './cancellation/withdrawal.ts';

export type OperationKind = 'activity' | 'timer' | 'event' | 'child' | 'detached';

/** Who can give an operation up: it has to record that it did. */
export interface OperationOwner {
  /** The code wants to give an operation up. */
  cancel(operation: Operation, withdrawal: Withdrawal): void;
}

export interface OperationOptions {
  readonly kind: OperationKind;
  readonly id: number;
  readonly name: string;
  readonly scope: CancelScope;
  readonly owner: OperationOwner;
  readonly cancellation?: CancellationType | undefined;
  readonly childId?: string | undefined;
  /** Makes the value of a wait from the payload of its event; throws for a payload that does not fit. */
  readonly parse?: ((payload: unknown) => unknown) | undefined;
}

/** A durable operation that the code has issued and that has not settled: it waits for its answer. */
export class Operation extends Deferred<unknown> implements DurableSource {
  readonly kind: OperationKind;
  readonly id: number;
  /** The name of the activity, event, child or detached instance; empty for a timer. */
  readonly name: string;
  /** Where the code issued it. */
  readonly scope: CancelScope;
  readonly cancellation: CancellationType;
  readonly childId: string | undefined;
  /** Why it was given up, while its answer is still awaited. */
  withdrawal: Withdrawal | undefined;
  /** The promise that the code was given: its own, or one over it and its deadline. */
  shown: DurablePromise<unknown>;
  readonly #owner: OperationOwner;
  readonly #parse: ((payload: unknown) => unknown) | undefined;

  constructor(options: OperationOptions) {
    super();
    this.kind = options.kind;
    this.id = options.id;
    this.name = options.name;
    this.scope = options.scope;
    this.cancellation = options.cancellation ?? 'request';
    this.childId = options.childId;
    this.#owner = options.owner;
    this.#parse = options.parse;
    this.shown = this.promise;
    DurablePromise.attach(this.promise, this);
  }

  /** Settles a wait with the payload of its event; one that does not fit rejects it. The event is taken either way. */
  receive(payload: unknown): void {
    if (this.#parse === undefined) {
      this.resolve(payload);
      return;
    }
    let value: unknown;
    try {
      value = this.#parse(payload);
    } catch (error) {
      this.reject(error);
      return;
    }
    this.resolve(value);
  }

  withdraw(withdrawal: Withdrawal): void {
    this.#owner.cancel(this, withdrawal);
  }
}
