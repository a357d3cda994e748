import { lockedKey, type Intact } from '../../conformance/broken/broken-provider.ts';
import { encodeMessage } from '../../../src/model/message.ts';
import { isTerminal, type InstanceStatus } from '../../../src/model/status.ts';
import type { NewInstance } from '../../../src/providers/contract/instances.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { Profile } from './scenario.ts';
import type { WorkItem } from '../../../src/providers/contract/work-queue.ts';

/** A guard to remove from an intact store. */
export interface RemovedGuard {
  /** The behaviour without the guard. */
  readonly fault: string;
  /** The violation that the check must report. */
  readonly finding: RegExp;
  /** The scenarios that find it. Default: `races`. */
  readonly profile?: Profile;
  /** The seed of the scenarios, recorded because it finds the guard early. Default: 1. */
  readonly seed?: number;
  readonly override: (intact: Intact) => Partial<Provider>;
}

// Later than every time of a scenario.
const hiddenMs = 1_000_000_000_000;

export const removedGuards: readonly RemovedGuard[] = [
  {
    fault: 'a fast-path turn commits although the instance is canceling',
    finding: /a turn in memory of .* was acked while it was canceling/,
    override({ provider, db, clock }) {
      const pretend = [
        `UPDATE instances SET status = 'running'
         WHERE instance_key = ? AND status = 'canceling' AND closing_reason IS NULL`,
        'UPDATE worker_queue SET cancel_requested = 0 WHERE instance_key = ?',
        `UPDATE orchestrator_queue SET visible_at = visible_at + ${hiddenMs}
         WHERE instance_key = ? AND kind = 'cancel'`,
      ].map((sql) => db.prepare<[number]>(sql));
      const undo = [
        `UPDATE instances SET status = 'canceling'
         WHERE instance_key = ? AND status = 'running' AND cancel_requested_at IS NOT NULL`,
        `UPDATE worker_queue SET cancel_requested = 1
         WHERE instance_key = ? AND cancel_requested_at IS NOT NULL AND point_of_no_return = 0`,
        `UPDATE orchestrator_queue SET visible_at = visible_at - ${hiddenMs}
         WHERE instance_key = ? AND kind = 'cancel'`,
      ].map((sql) => db.prepare<[number]>(sql));
      const wake = db.prepare<[number, number]>(
        'UPDATE instance_locks SET next_at = ? WHERE instance_key = ? AND lock_token IS NULL',
      );
      return {
        async ackTurns(acks) {
          for (const { instanceKey } of acks) for (const each of pretend) each.run(instanceKey);
          const results = await provider.ackTurns(acks);
          for (const { instanceKey } of acks) {
            for (const each of undo) each.run(instanceKey);
            wake.run(clock.now(), instanceKey);
          }
          return results;
        },
      };
    },
  },
  {
    fault: 'a second cancel overwrites the reason of the first',
    finding: /is \{"status":"\w+".*"reason":"[ab]".*not \{"status":"\w+".*"reason":"[ab]"/,
    override({ provider, db }) {
      const replace = db.prepare<[string, string | null, string]>(
        'UPDATE instances SET cancel_reason = ?, cancel_actor = ? WHERE instance_id = ?',
      );
      return {
        async requestCancel(requests) {
          const results = await provider.requestCancel(requests);
          for (const [index, { reason, actor, instanceId }] of requests.entries()) {
            if (results[index]?.status === 'canceling') replace.run(reason, actor, instanceId);
          }
          return results;
        },
      };
    },
  },
  {
    fault: 'a turn that ends after a cancel still starts its work items',
    finding: /started \d+ after its cancel|although it should be deleted/,
    override({ provider, db }) {
      const isCanceling = db
        .prepare<[number], 1>(
          `SELECT 1 FROM instances WHERE instance_key = ? AND status = 'canceling'`,
        )
        .pluck();
      return {
        ackOrchestrationItems: (acks) =>
          provider.ackOrchestrationItems(
            acks.map((ack) => {
              if (isCanceling.get(lockedKey(ack.lockToken)) === undefined) return ack;
              const workItems = ack.turn.workItems.map((item) => ({ ...item, shielded: true }));
              return { ...ack, turn: { ...ack.turn, workItems } };
            }),
          ),
      };
    },
  },
  {
    fault: 'an instance becomes canceled while its handlers run',
    finding: /is \{"status":"canceled".*not \{"status":"canceling"/,
    override({ provider, db, clock }) {
      const close = db.prepare<[number, number, number]>(
        `UPDATE instances SET status = 'canceled', ended_at = ?, canceled_at = ?, closing_reason = NULL
         WHERE instance_key = ? AND closing_reason IS NOT NULL`,
      );
      return {
        async ackOrchestrationItems(acks) {
          const results = await provider.ackOrchestrationItems(acks);
          const now = clock.now();
          for (const { lockToken } of acks) close.run(now, now, lockedKey(lockToken));
          return results;
        },
      };
    },
  },
  {
    fault: 'the children of a terminated instance continue',
    seed: 38,
    finding:
      /is \{"status":"(pending|running|canceling)".*not \{"status":"(canceling|canceled|terminated)"/,
    override({ provider, db }) {
      const keep = db.prepare<[string]>(
        `UPDATE instances SET cancellation = 'abandon' WHERE parent_instance_id = ?`,
      );
      return {
        terminate(requests) {
          for (const { instanceId } of requests) keep.run(instanceId);
          return provider.terminate(requests);
        },
      };
    },
  },
  {
    fault: 'the result of a deleted instance reaches the next one with its id',
    seed: 5,
    finding: /which no commit delivered/,
    override({ provider }) {
      const items = new Map<
        string,
        Pick<WorkItem, 'instanceId' | 'incarnation' | 'executionId' | 'operation'>
      >();
      return {
        async createInstances(instances) {
          const results = await provider.createInstances(instances);
          for (const [index, { instanceId, incarnation }] of instances.entries()) {
            const result = results[index];
            const claimed = result?.kind === 'created' ? result.claimed : [];
            for (const { lockToken, operation } of claimed) {
              items.set(lockToken, { instanceId, incarnation, executionId: 1, operation });
            }
          }
          return results;
        },
        async fetchWorkItems(params) {
          const fetched = await provider.fetchWorkItems(params);
          for (const item of fetched) items.set(item.lockToken, item);
          return fetched;
        },
        async ackWorkItems(acks) {
          const results = await provider.ackWorkItems(acks);
          for (const [index, { lockToken, outcome }] of acks.entries()) {
            const item = items.get(lockToken);
            if (results[index]?.ok !== false || item === undefined) continue;
            const { instanceId, executionId, operation, incarnation } = item;
            const [record] = await provider.getInstances([instanceId]);
            const isNext = record !== undefined && record.incarnation !== incarnation;
            if (!isNext || outcome.kind === 'canceled') continue;
            const payload = outcome.kind === 'completed' ? outcome.payload : null;
            const message = { kind: 'activityCompleted', executionId, operation, payload } as const;
            await provider.enqueueMessages([{ instanceId, message: encodeMessage(message) }]);
          }
          return results;
        },
      };
    },
  },
  {
    fault: 'the turn of a deleted instance recreates it',
    finding: /exists, but was not created/,
    override({ provider }) {
      const created = new Map<string, NewInstance>();
      const claimed = new Map<string, string>();
      return {
        createInstances(instances) {
          for (const instance of instances) created.set(instance.instanceId, instance);
          return provider.createInstances(instances);
        },
        async fetchOrchestrationItems(params) {
          const items = await provider.fetchOrchestrationItems(params);
          for (const { lockToken, instanceId } of items) claimed.set(lockToken, instanceId);
          return items;
        },
        async ackOrchestrationItems(acks) {
          const results = await provider.ackOrchestrationItems(acks);
          for (const [index, { lockToken }] of acks.entries()) {
            const instance = created.get(claimed.get(lockToken) ?? '');
            if (results[index]?.ok !== false || instance === undefined) continue;
            const { firstTurn: _, ...again } = instance;
            await provider.createInstances([again]);
          }
          return results;
        },
      };
    },
  },
  {
    fault: 'a renewal does not report that the instance was deleted',
    finding: /a renewal does not report a deletion/,
    override: ({ provider }) => ({
      async renewWorkItemLocks(renewals, extendMs) {
        const results = await provider.renewWorkItemLocks(renewals, extendMs);
        return results.map((result) => (result.held ? result : { held: false }));
      },
    }),
  },
  {
    fault: 'a claim ignores the pause of an instance',
    finding: /was claimed while it is paused/,
    override({ provider, db }) {
      const show = ['worker_queue', 'instance_locks'].map((table) =>
        db.prepare(`UPDATE ${table} SET definition_key = -definition_key WHERE definition_key < 0`),
      );
      return {
        fetchOrchestrationItems(params) {
          for (const each of show) each.run();
          return provider.fetchOrchestrationItems(params);
        },
        fetchWorkItems(params) {
          for (const each of show) each.run();
          return provider.fetchWorkItems(params);
        },
      };
    },
  },
  {
    fault: 'a deletion leaves the children of the root',
    seed: 2,
    finding: /delete of .* returned|is stuck/,
    override({ provider, db }) {
      const readRoot = db.prepare<
        [string],
        { readonly status: InstanceStatus; readonly incarnation: string }
      >('SELECT status, incarnation FROM instances WHERE instance_id = ?');
      const removeParent = db.prepare<[string]>(
        'UPDATE instances SET parent_instance_id = NULL WHERE parent_instance_id = ?',
      );
      return {
        deleteInstancesAtomic(trees) {
          return provider.deleteInstancesAtomic(
            trees.map((tree) => {
              const rootId = tree.instanceIds.at(-1) ?? '';
              const root = readRoot.get(rootId);
              // A tree that the store does not delete keeps its children.
              const isReplaced =
                tree.rootIncarnation !== undefined && root?.incarnation !== tree.rootIncarnation;
              if (root === undefined || isReplaced) return tree;
              if (!tree.force && !isTerminal(root.status)) return tree;
              removeParent.run(rootId);
              return { ...tree, instanceIds: [rootId] };
            }),
          );
        },
      };
    },
  },
  {
    fault: 'the late outcome of an ended execution reaches the execution that a retry started',
    seed: 14,
    finding: /which no commit delivered/,
    override({ provider, db }) {
      const select = db.prepare<
        [number],
        {
          readonly instanceId: string;
          readonly of: number;
          readonly current: number;
          readonly operation: number;
        }
      >(
        `SELECT instance_id AS instanceId, worker_queue.execution_id AS of, instances.execution_id AS current, operation
         FROM worker_queue JOIN instances USING (instance_key) WHERE item_key = ?`,
      );
      return {
        async ackWorkItems(acks) {
          const items = acks.map(({ lockToken }) => select.get(lockedKey(lockToken)));
          const results = await provider.ackWorkItems(acks);
          for (const [index, { outcome }] of acks.entries()) {
            const item = items[index];
            if (results[index]?.ok !== true || item === undefined || item.of === item.current)
              continue;
            if (outcome.kind !== 'completed') continue;
            const { instanceId, operation, current: executionId } = item;
            const { payload } = outcome;
            const message = { kind: 'activityCompleted', executionId, operation, payload } as const;
            await provider.enqueueMessages([{ instanceId, message: encodeMessage(message) }]);
          }
          return results;
        },
      };
    },
  },
  {
    fault: 'each of two concurrent retries starts an execution',
    seed: 6,
    finding: /retry of .* returned \{"kind":"retried","executionId":\d+\}, not \{"kind":"status"/,
    override({ provider, db, clock }) {
      const select = db.prepare<
        [string],
        { readonly executionId: number; readonly historyLength: number }
      >(
        `SELECT execution_id AS executionId, history_length AS historyLength FROM instances
         WHERE instance_id = ? AND status = 'running'`,
      );
      const end = db.prepare<[number, number, string]>(
        `UPDATE instances SET status = 'failed', ended_at = ?, failed_at = ?, failure = '{}' WHERE instance_id = ?`,
      );
      return {
        retryInstances(retries) {
          return provider.retryInstances(
            retries.map((retry) => {
              const { instanceId, executionId } = retry.source;
              const current = select.get(instanceId);
              if (current?.executionId !== executionId + 1) return retry;
              end.run(clock.now(), clock.now(), instanceId);
              return { ...retry, source: { ...retry.source, ...current } };
            }),
          );
        },
      };
    },
  },
  {
    fault: 'a retried instance keeps the cancel request of its ended execution',
    seed: 9,
    finding:
      /is \{"status":"running".*"cancel":\{"reason".*not \{"status":"running".*"cancel":null/,
    override({ provider, db }) {
      const select = db.prepare<[string], { readonly at: number; readonly reason: string }>(
        `SELECT cancel_requested_at AS at, cancel_reason AS reason FROM instances
         WHERE instance_id = ? AND cancel_requested_at IS NOT NULL`,
      );
      const restore = db.prepare<[number, string, string]>(
        'UPDATE instances SET cancel_requested_at = ?, cancel_reason = ? WHERE instance_id = ?',
      );
      return {
        async retryInstances(retries) {
          const cancels = retries.map(({ source }) => select.get(source.instanceId));
          const results = await provider.retryInstances(retries);
          for (const [index, { source }] of retries.entries()) {
            const cancel = cancels[index];
            if (results[index]?.kind !== 'retried' || cancel === undefined) continue;
            restore.run(cancel.at, cancel.reason, source.instanceId);
          }
          return results;
        },
      };
    },
  },
  {
    fault: 'a takeover leaves the claims of the dead process',
    finding: /takeover of .* ended 0 leases, not \d+/,
    profile: 'takeovers',
    override({ provider, db }) {
      const remove = db.prepare<[string]>('DELETE FROM processes WHERE process_id = ?');
      return {
        takeOverClaims(processIds) {
          for (const id of processIds) remove.run(id);
          return provider.takeOverClaims(processIds);
        },
      };
    },
  },
  {
    fault: 'a takeover also ends the claims of living processes',
    seed: 2,
    finding: /takeover of .* ended \d+ leases, not \d+|was claimed while another worker held it/,
    profile: 'takeovers',
    override({ provider, db, clock }) {
      const expire = ['worker_queue', 'instance_locks'].map((table) =>
        db.prepare<[number, number, number]>(
          `UPDATE ${table} SET locked_until = ?, next_at = ? WHERE lock_token IS NOT NULL AND locked_until > ?`,
        ),
      );
      return {
        async takeOverClaims(processIds) {
          const count = await provider.takeOverClaims(processIds);
          const now = clock.now();
          for (const each of expire) each.run(now, now, now);
          return count;
        },
      };
    },
  },
  {
    fault: 'the late ack of a dead process counts after its claim was taken over',
    finding: /an item was acked with a token that holds nothing/,
    profile: 'takeovers',
    override({ provider, db, clock }) {
      const restore = db.prepare<[string, number, number, number]>(
        'UPDATE worker_queue SET lock_token = ?, locked_until = ?, next_at = ? WHERE item_key = ?',
      );
      return {
        ackWorkItems(acks) {
          for (const { lockToken } of acks) {
            const until = clock.now() + 100;
            restore.run(
              lockToken.slice(lockToken.indexOf('.') + 1),
              until,
              until,
              lockedKey(lockToken),
            );
          }
          return provider.ackWorkItems(acks);
        },
      };
    },
  },
];
