import type { CreateResult, NewInstance } from '../../contract/instances.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import type { Scope } from '../driver/scope.ts';
import type { BatchWork } from './batching.ts';
import type { Batch } from './batch.ts';

/** How the operations of a store read and write. */
export interface StoreAccess {
  /** The first parameter of statements that read the clock. */
  readonly nowParameter: number | null;
  /** Throws `CLOSED` once the store is closing. */
  assertOpen(operation: string): void;
  /** Creates a write whose concurrent calls share transactions. */
  batching<Item, Result>(
    work: BatchWork<Item, Result>,
  ): (items: readonly Item[]) => Promise<readonly Result[]>;
  /** Creates an empty batch for a transaction. */
  newBatch(scope: Scope): Batch;
  /** Reads on one connection, without a transaction. */
  read<T>(operation: string, work: (tx: Transaction) => Promise<T>): Promise<T>;
  /** Runs one statement as a transaction of its own. */
  statement<Row extends object>(
    operation: string,
    statement: Statement,
    values: readonly unknown[],
  ): Promise<readonly Row[]>;
  /** Writes in a transaction of its own. */
  writeOnce<T>(operation: string, work: (scope: Scope) => Promise<T>): Promise<T>;
}

/** Creates instances within a transaction. */
export type CreateInstances = (
  scope: Scope,
  instances: readonly NewInstance[],
) => Promise<readonly CreateResult[]>;
