import { CanceledError, LockLostError } from '../../../model/failures/errors.ts';
import type { TransactionAck, TransactionStore } from '../../contract/transactional.ts';
import type { CommitResult } from '../../contract/turn.ts';
import { allOrNone } from '../../rules/transacted-acks.ts';
import { toCancelInfo } from '../../shared/work-item-row.ts';
import type { Scope } from '../batches/group-commit.ts';
import type { OpenTransactions } from '../batches/open-transactions.ts';
import { ackInstance, type OrchestrationQueueParts } from './orchestration-queue.ts';
import { ackItem, ackTurn, type WorkQueueParts } from './work-queue.ts';

interface TransactionParts extends WorkQueueParts, OrchestrationQueueParts {
  readonly openTransactions: OpenTransactions;
}

/** Commits acks together with writes of the application to the same file. */
export function createTransactionStore(store: TransactionParts): TransactionStore {
  return {
    async transact(request) {
      store.assertOpen('transact');
      return store.openTransactions.run(request, (scope, ack) => writeAck(store, scope, ack));
    },
  };
}

function writeAck(store: TransactionParts, scope: Scope, one: TransactionAck): CommitResult {
  switch (one.kind) {
    case 'turn':
      return ackTurn(store, scope, one.ack);
    case 'orchestration':
      return ackInstance(store, scope, one.ack);
    case 'message': {
      const { lockToken, message } = one.ack;
      const row = store.instances.getHeld(lockToken, scope.now);
      if (row === undefined) return { ok: false, error: new LockLostError('transact') };
      store.messages.insert(row.instanceKey, message, scope.now);
      store.locks.touch(row.instanceKey, row.definitionKey, scope.now);
      return { ok: true, claimed: [] };
    }
    case 'workItem': {
      const canceled = one.unlessCanceled === true ? cancelOf(store, scope, one.ack) : undefined;
      return canceled ?? ackItem(store, scope, one.ack);
    }
    case 'workItems':
      return allOrNone(
        one.acks.map(({ ack, unlessCanceled }) => {
          const canceled = unlessCanceled === true ? cancelOf(store, scope, ack) : undefined;
          return canceled ?? ackItem(store, scope, ack);
        }),
      );
  }
}

/** Returns the refusal of an item that was asked to stop. */
function cancelOf(
  store: WorkQueueParts,
  { now }: Scope,
  { lockToken }: { readonly lockToken: string },
): CommitResult | undefined {
  const item = store.workItems.heldBy(lockToken, now);
  if (item?.cancelRequested !== 1) return undefined;
  const cancel = toCancelInfo(store.workItems.cancelOf(item.itemKey));
  return cancel === null
    ? undefined
    : { ok: false, error: new CanceledError(cancel.reason, cancel.trigger) };
}
