import type { CancellationStore } from './cancellation.ts';
import type { InstanceStore } from './instances.ts';
import type { TaskStore } from './tasks.ts';

/** A connection of the application, with a transaction begun on it: a client of `pg`, or what queries like one. */
export interface TransactionConnection {
  query(statement: {
    readonly text: string;
    readonly values: unknown[];
  }): Promise<{ readonly rows: object[]; readonly rowCount: number | null }>;
}

/** What a store can write as a part of the application's own transaction. */
export type TransactionalWrites = Pick<InstanceStore, 'createInstances' | 'enqueueMessages'> &
  Pick<TaskStore, 'createTasks'> &
  Pick<CancellationStore, 'requestCancel'>;
