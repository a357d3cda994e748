import { CanceledError, LockLostError } from '../../../model/failures/errors.ts';
import type { TransactionAck, TransactionStore } from '../../contract/transactional.ts';
import type { CommitResult } from '../../contract/turn.ts';
import { isHeldBy } from '../../rules/claims.ts';
import { allOrNone } from '../../rules/transacted-acks.ts';
import { parseToken } from '../../shared/lock-token.ts';
import { toCancelInfo } from '../../shared/work-item-row.ts';
import type { ApplicationTransactions } from '../driver/application-transactions.ts';
import { Scope } from '../driver/scope.ts';
import { ackInstances, type OrchestrationQueueParts } from './orchestration-queue.ts';
import { ackItems, ackTurns, type WorkQueueParts } from './work-queue.ts';

type TransactionParts = WorkQueueParts &
  OrchestrationQueueParts & {
    readonly clock: ConstructorParameters<typeof Scope>[1];
    readonly applicationTransactions: ApplicationTransactions;
    /** Applies what follows from a commit. */
    committed(scope: Scope): void;
  };

/** Commits acks together with writes of the application to the same database. */
export function createTransactionStore(store: TransactionParts): TransactionStore {
  return {
    async transact({ write, timeoutMs, signal }) {
      store.assertOpen('transact');
      const { scope, result } = await store.applicationTransactions.run({
        write,
        timeoutMs,
        signal,
        finish: async (tx, ack: TransactionAck) => {
          const scope = new Scope(tx, store.clock);
          const result = await writeAck(store, scope, ack);
          return { commit: result.ok, result: { scope, result } };
        },
      });
      if (result.ok) store.committed(scope);
      return result;
    },
  };
}

async function writeAck(
  store: TransactionParts,
  scope: Scope,
  one: TransactionAck,
): Promise<CommitResult> {
  const [result] = await writeAcks(store, scope, one);
  if (result === undefined) throw new Error('The ack has no result.');
  return result;
}

async function writeAcks(
  store: TransactionParts,
  scope: Scope,
  one: TransactionAck,
): Promise<readonly CommitResult[]> {
  switch (one.kind) {
    case 'turn':
      return ackTurns(store, scope, [one.ack]);
    case 'orchestration':
      return ackInstances(store, scope, [one.ack]);
    case 'message':
      return [await sendToHeld(store, scope, one.ack)];
    case 'workItem':
      return ackItems(store, scope, [one.ack], (item) => {
        const cancel = one.unlessCanceled === true ? toCancelInfo(item) : null;
        return cancel === null ? undefined : new CanceledError(cancel.reason, cancel.trigger);
      });
    case 'workItems': {
      const { acks } = one;
      const results = await ackItems(
        store,
        scope,
        acks.map(({ ack }) => ack),
        (item, index) => {
          const cancel = acks[index]?.unlessCanceled === true ? toCancelInfo(item) : null;
          return cancel === null ? undefined : new CanceledError(cancel.reason, cancel.trigger);
        },
      );
      return [allOrNone(results)];
    }
  }
}

/** Sends a message to an instance that the caller holds. */
async function sendToHeld(
  store: TransactionParts,
  scope: Scope,
  { lockToken, message }: Extract<TransactionAck, { kind: 'message' }>['ack'],
): Promise<CommitResult> {
  const { key, secret } = parseToken(lockToken);
  const batch = store.newBatch(scope);
  const [, locks] = await scope.begin(
    batch.instances.lock({ keys: [key] }),
    store.locks.lock(scope.tx, [key], scope.nowParameter),
  );
  const target = batch.instances.get(key);
  if (!isHeldBy(locks.get(key), secret, scope.now) || target === undefined) {
    return { ok: false, error: new LockLostError('transact') };
  }
  batch.changes.send(scope, target, message);
  await batch.changes.write(scope, store);
  return { ok: true, claimed: [] };
}
