import type { TransactionalWrites, TransactionConnection } from '../contract/transactional.ts';
import { CallerTransaction } from './driver/transaction.ts';
import { requestCancels } from './stopping/cancellation.ts';
import { create, enqueue } from './instances/instances.ts';
import { toProviderError } from './driver/postgres-errors.ts';
import { Scope } from './driver/scope.ts';
import type { Store } from './store.ts';
import { createTasks } from './tasks/tasks.ts';

/** Writes as a part of a transaction of the application; others are told when that commits. */
export function createTransactionalWrites(
  store: Store,
  connection: TransactionConnection,
): TransactionalWrites {
  const tx = new CallerTransaction(connection);
  let last: Promise<unknown> = Promise.resolve();
  const write = <Item, Result>(
    operation: string,
    run: (scope: Scope, items: readonly Item[]) => Promise<readonly Result[]>,
  ) => {
    const writeNow = async (items: readonly Item[]): Promise<readonly Result[]> => {
      const scope = new Scope(tx, store.clock);
      try {
        const results = await run(scope, items);
        await store.wakeUps.announceWithin(tx, scope.effects);
        return results;
      } catch (error) {
        throw toProviderError(operation, error);
      }
    };
    return async (items: readonly Item[]): Promise<readonly Result[]> => {
      store.assertOpen(operation);
      if (items.length === 0) return [];
      // One after the other: within one transaction no lock keeps two writes apart.
      const results = last.then(() => writeNow(items));
      last = results.catch(() => undefined);
      return results;
    };
  };
  return {
    createInstances: write('createInstances', (scope, items) => create(store, scope, items)),
    createTasks: write('createTasks', (scope, items) => createTasks(store, scope, items)),
    enqueueMessages: write('enqueueMessages', (scope, items) => enqueue(store, scope, items)),
    requestCancel: write('requestCancel', (scope, items) => requestCancels(store, scope, items)),
  };
}
