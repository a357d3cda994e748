import Database from 'better-sqlite3';
import { LockLostError } from '../../src/model/errors.ts';
import { encodeMessage } from '../../src/model/message.ts';
import type { Provider } from '../../src/providers/provider.ts';
import type { WorkItemAck } from '../../src/providers/work-queue.ts';
import type { ClaimBook } from './claim-book.ts';
import { overrideProvider } from './override-provider.ts';

/**
 * The sabotage: a provider whose writes are no longer fenced. Before each ack or renewal the caller's token is put
 * back on its row, whoever holds the row by now, and the completion of an item that is already gone is enqueued again.
 */
export function withoutFencing(inner: Provider, book: ClaimBook, store: string): Provider {
  const db = new Database(store);
  const restoreItem = db.prepare<{ secret: string; until: number; key: number }>(
    `UPDATE worker_queue SET lock_token = :secret, locked_until = :until, next_at = :until
     WHERE item_key = :key`,
  );
  const restoreInstance = db.prepare<{ secret: string; until: number; key: number }>(
    `UPDATE instance_locks SET lock_token = :secret, locked_until = :until, next_at = :until
     WHERE instance_key = :key`,
  );
  const restore = (statement: typeof restoreItem, token: string): void => {
    const dot = token.indexOf('.');
    const key = Number(token.slice(0, dot));
    statement.run({ secret: token.slice(dot + 1), until: Date.now() + 1_000, key });
  };
  const restoreItems = (tokens: readonly string[]): void => {
    for (const token of tokens) restore(restoreItem, token);
  };

  const completeAgain = async ({ lockToken, outcome }: WorkItemAck): Promise<boolean> => {
    const claimed = book.operation(lockToken);
    if (claimed === undefined || outcome.kind !== 'completed') return false;
    const { instanceId, executionId, operation } = claimed;
    const { payload } = outcome;
    const message = encodeMessage({ kind: 'activityCompleted', executionId, operation, payload });
    const [answer] = await inner.enqueueMessages([{ instanceId, message }]);
    return answer === 'enqueued';
  };

  return overrideProvider(inner, {
    async ackWorkItems(acks) {
      restoreItems(acks.map(({ lockToken }) => lockToken));
      const results = await inner.ackWorkItems(acks);
      return Promise.all(
        acks.map(async (ack, index) => {
          const result = results[index] ?? { ok: false, error: new LockLostError('ackWorkItems') };
          return result.ok || !(await completeAgain(ack)) ? result : { ok: true, claimed: [] };
        }),
      );
    },

    ackTurns(acks) {
      restoreItems(acks.flatMap(({ lockTokens }) => lockTokens));
      return inner.ackTurns(acks);
    },

    ackOrchestrationItems(acks) {
      for (const { lockToken } of acks) restore(restoreInstance, lockToken);
      return inner.ackOrchestrationItems(acks);
    },

    async renewWorkItemLocks(renewals, extendMs) {
      restoreItems(renewals.map(({ lockToken }) => lockToken));
      await inner.renewWorkItemLocks(renewals, extendMs);
      return renewals.map(() => ({ held: true, cancel: null }));
    },

    async renewOrchestrationLocks(lockTokens, extendMs) {
      for (const token of lockTokens) restore(restoreInstance, token);
      await inner.renewOrchestrationLocks(lockTokens, extendMs);
      return lockTokens.map(() => true);
    },

    async close() {
      await inner.close();
      db.close();
    },
  });
}
