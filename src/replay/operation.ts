import {
  Deferred,
  DurablePromise,
  type DurableSource,
  type Withdrawal,
} from './durable-promise.ts';
import type { Scope } from './scope.ts';

export type OperationKind = 'activity' | 'timer' | 'event' | 'child';

/** Who can give an operation up: it has to record that it did. */
export interface OperationOwner {
  withdraw(operation: Operation, withdrawal: Withdrawal): void;
}

/** A durable operation that the code has issued and that has not settled: it waits for its answer. */
export class Operation extends Deferred<unknown> implements DurableSource {
  readonly kind: OperationKind;
  readonly id: number;
  /** The name of the activity, event or child; empty for a timer. */
  readonly name: string;
  /** Where the code issued it. */
  readonly scope: Scope;
  readonly #owner: OperationOwner;

  constructor(options: {
    readonly kind: OperationKind;
    readonly id: number;
    readonly name: string;
    readonly scope: Scope;
    readonly owner: OperationOwner;
  }) {
    super();
    this.kind = options.kind;
    this.id = options.id;
    this.name = options.name;
    this.scope = options.scope;
    this.#owner = options.owner;
    DurablePromise.attach(this.promise, this);
  }

  withdraw(withdrawal: Withdrawal): void {
    this.#owner.withdraw(this, withdrawal);
  }
}
