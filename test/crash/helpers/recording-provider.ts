import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { ClaimedAtInsert } from '../../../src/providers/contract/turn.ts';
import { keyOf, type ClaimRegistry, type ClaimedInstance } from '../oracles/claim-registry.ts';
import type { Ledger } from '../oracles/ledger.ts';
import { overrideProvider } from '../override-provider.ts';

type How = 'acked' | 'refused' | 'retried' | 'abandoned';

/**
 * Writes every claim and its outcome to the ledger: before the call that settles it, and after the response. A claim is
 * written before the worker can use it, so each effect has a recorded claim.
 */
export function recordClaims(inner: Provider, book: ClaimRegistry, ledger: Ledger): Provider {
  const settling = (tokens: readonly string[]): void => {
    for (const token of tokens) ledger.write({ line: 'settling', token });
  };
  const settled = (token: string, how: How): void =>
    ledger.write({ line: 'settled', token, how, at: Date.now() });

  // The store's clock at the commit lies between call and response.
  const claimedAtInsert = (
    instance: ClaimedInstance,
    claimed: readonly ClaimedAtInsert[],
    since: number,
  ): void => {
    for (const { operation, lockToken: token } of claimed) {
      const key = keyOf({ ...instance, operation });
      book.addOperation(token, { ...instance, operation });
      ledger.write({ line: 'claim', key, token, failures: 0, since, until: Date.now() });
    }
  };

  return overrideProvider(inner, {
    async createInstances(instances) {
      const since = Date.now();
      const results = await inner.createInstances(instances);
      for (const [index, { instanceId, incarnation }] of instances.entries()) {
        const result = results[index];
        if (result?.kind !== 'created') continue;
        book.addId(result.instanceKey, instanceId);
        claimedAtInsert({ instanceId, incarnation, executionId: 1 }, result.claimed, since);
      }
      return results;
    },

    async fetchOrchestrationItems(params) {
      const items = await inner.fetchOrchestrationItems(params);
      for (const item of items) {
        book.addInstance(item);
        ledger.write({ line: 'turnClaim', token: item.lockToken });
      }
      return items;
    },

    async ackOrchestrationItems(acks) {
      settling(acks.map(({ lockToken }) => lockToken));
      const since = Date.now();
      const results = await inner.ackOrchestrationItems(acks);
      for (const [index, { lockToken }] of acks.entries()) {
        const result = results[index];
        const instance = book.instance(lockToken);
        const isKept = result?.ok === true && result.kept === true;
        if (!isKept) settled(lockToken, result?.ok === true ? 'acked' : 'refused');
        if (result?.ok === true && instance !== undefined) {
          claimedAtInsert(instance, result.claimed, since);
        }
      }
      return results;
    },

    async abandonOrchestrationItems(abandons) {
      const results = await inner.abandonOrchestrationItems(abandons);
      for (const { lockToken } of abandons) settled(lockToken, 'abandoned');
      return results;
    },

    async fetchWorkItems(params) {
      const items = await inner.fetchWorkItems(params);
      // The store reads its clock before it queries due entries.
      const until = Date.now();
      for (const item of items) {
        const { lockToken: token, failures, nowMs: since } = item;
        book.addOperation(token, item);
        const key = keyOf(item);
        ledger.write({ line: 'claim', key, token, failures, since, until });
      }
      return items;
    },

    async ackWorkItems(acks) {
      settling(acks.map(({ lockToken }) => lockToken));
      const results = await inner.ackWorkItems(acks);
      for (const [index, { lockToken }] of acks.entries()) {
        settled(lockToken, results[index]?.ok === true ? 'acked' : 'refused');
      }
      return results;
    },

    async ackTurns(acks) {
      settling(acks.flatMap(({ lockTokens }) => lockTokens));
      const since = Date.now();
      const results = await inner.ackTurns(acks);
      for (const [index, ack] of acks.entries()) {
        const result = results[index];
        if (result?.ok !== true) continue;
        for (const token of ack.lockTokens) settled(token, 'acked');
        // A turn caused by a timer settles no item.
        const instanceId = book.idOf(ack.instanceKey);
        if (instanceId === undefined)
          throw new Error('Acked a turn of an instance that was not claimed.');
        const { incarnation, executionId } = ack;
        claimedAtInsert({ instanceId, incarnation, executionId }, result.claimed, since);
      }
      return results;
    },

    async renewWorkItemLocks(renewals, extendMs) {
      const since = Date.now();
      const results = await inner.renewWorkItemLocks(renewals, extendMs);
      const to = Date.now();
      if (to - since > extendMs / 3) ledger.write({ line: 'waited', from: since, to });
      for (const [index, { lockToken: token }] of renewals.entries()) {
        if (results[index]?.held === true) ledger.write({ line: 'renewed', token, since });
      }
      return results;
    },

    async abandonWorkItems(abandons) {
      for (const { lockToken: token } of abandons) {
        ledger.write({ line: 'settling', token, by: 'abandon' });
      }
      try {
        const results = await inner.abandonWorkItems(abandons);
        for (const [index, { lockToken }] of abandons.entries()) {
          settled(lockToken, results[index] === true ? 'abandoned' : 'refused');
        }
        return results;
      } catch (error) {
        // The response was lost, so another worker may claim the item before the retry is refused.
        for (const { lockToken } of abandons) settled(lockToken, 'abandoned');
        throw error;
      }
    },

    async retryWorkItems(retries) {
      settling(retries.map(({ lockToken }) => lockToken));
      const results = await inner.retryWorkItems(retries);
      for (const [index, { lockToken }] of retries.entries()) {
        settled(lockToken, results[index] === true ? 'retried' : 'refused');
      }
      return results;
    },
  });
}
