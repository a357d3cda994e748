import type { CancellationStore } from './cancellation.ts';
import type { InstanceStore } from './instances.ts';
import type { TaskStore } from './tasks.ts';

/** A connection of the application with an open transaction: a client of `pg`, or a compatible object. */
export interface TransactionConnection {
  query(statement: {
    readonly text: string;
    readonly values: unknown[];
  }): Promise<{ readonly rows: object[]; readonly rowCount: number | null }>;
}

/** Writes that a store can make within a transaction of the application. */
export type TransactionalWrites = Pick<InstanceStore, 'createInstances' | 'enqueueMessages'> &
  Pick<TaskStore, 'createTasks'> &
  Pick<CancellationStore, 'requestCancel'>;
