import { LockLostError } from '../../../src/model/failures/errors.ts';
import { encodeMessage } from '../../../src/model/message.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { WorkItemAck } from '../../../src/providers/contract/work-queue.ts';
import type { ClaimRegistry } from '../oracles/claim-registry.ts';
import { overrideProvider } from '../override-provider.ts';
import { createTokenRestorer } from './token-restorer.ts';

/**
 * A provider that does not fence writes. Before each ack or renewal it writes the caller's token back to its row, even
 * if another worker holds the row. It also enqueues the completion of an item that is already settled.
 */
export function withoutFencing(inner: Provider, book: ClaimRegistry, store: string): Provider {
  const restore = createTokenRestorer(store);

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
      await restore.items(acks.map(({ lockToken }) => lockToken));
      const results = await inner.ackWorkItems(acks);
      return Promise.all(
        acks.map(async (ack, index) => {
          const result = results[index] ?? { ok: false, error: new LockLostError('ackWorkItems') };
          return result.ok || !(await completeAgain(ack)) ? result : { ok: true, claimed: [] };
        }),
      );
    },

    async ackTurns(acks) {
      await restore.items(acks.flatMap(({ lockTokens }) => lockTokens));
      return inner.ackTurns(acks);
    },

    async ackOrchestrationItems(acks) {
      await restore.instances(acks.map(({ lockToken }) => lockToken));
      return inner.ackOrchestrationItems(acks);
    },

    async renewWorkItemLocks(renewals, extendMs) {
      await restore.items(renewals.map(({ lockToken }) => lockToken));
      await inner.renewWorkItemLocks(renewals, extendMs);
      return renewals.map(() => ({ held: true, cancel: null }));
    },

    async renewOrchestrationLocks(lockTokens, extendMs) {
      await restore.instances(lockTokens);
      await inner.renewOrchestrationLocks(lockTokens, extendMs);
      return lockTokens.map(() => true);
    },

    async close() {
      await inner.close();
      await restore.close();
    },
  });
}
