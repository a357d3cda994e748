import type { ManagementStore } from '../../contract/management.ts';
import type { Store } from '../store.ts';

/** Deletions, prunes, and what operators read. */
export function createManagementStore(store: Store): ManagementStore {
  return {
    listChildren: (instanceIds) =>
      store.read('listChildren', () => instanceIds.map((id) => store.family.childrenOf(id))),

    getParentId: (instanceId) => store.read('getParentId', () => store.family.parentOf(instanceId)),

    async deleteInstancesAtomic(trees) {
      const operation = 'deleteInstancesAtomic';
      const { treeDeletions } = store;
      if (trees.every(({ dryRun }) => dryRun === true)) {
        return store.read(operation, () => trees.map((tree) => treeDeletions.preview(tree)));
      }
      return store.writeOnce(operation, (scope) => treeDeletions.run(scope, trees));
    },

    async reclaimDeleted(maxRows) {
      const operation = 'reclaimDeleted';
      const { reclaims, tombstones, changeLog } = store;
      // A look without the write lock: nearly always there is nothing.
      const isDue = () =>
        reclaims.hasAny() ||
        tombstones.hasExpired(store.now()) ||
        changeLog.hasExpired(store.now());
      if (!(await store.read(operation, isDue))) return { rows: 0, left: false };
      return store.writeOnce(operation, ({ now }) => {
        tombstones.purge(now);
        changeLog.purge(now);
        return reclaims.run(maxRows);
      });
    },

    async pruneExecutionsAtomic(prunes) {
      const operation = 'pruneExecutionsAtomic';
      const { executionPrunes } = store;
      if (prunes.every(({ dryRun }) => dryRun === true)) {
        return store.read(operation, () => prunes.map((prune) => executionPrunes.preview(prune)));
      }
      return store.writeOnce(operation, (scope) => executionPrunes.run(scope, prunes));
    },

    scanInstances: (params) => store.read('scanInstances', () => store.scan.run(params)),

    listAudit: ({ limit, beforeKey }) =>
      store.read('listAudit', () => store.audit.list(limit, beforeKey)),

    queueDepths: () => store.read('queueDepths', () => store.metrics.queueDepths(store.now())),

    systemMetrics: () => store.read('systemMetrics', () => store.metrics.system()),

    measureInstance: (instanceId) =>
      store.read('measureInstance', () => store.metrics.instance(instanceId)),

    takeLease: (lease) =>
      store.writeOnce('takeLease', ({ now }) => store.systemRecords.takeLease(lease, now)),

    releaseLease: ({ name, owner }) =>
      store.writeOnce('releaseLease', () => store.systemRecords.releaseLease(name, owner)),

    readRecord: (name) => store.read('readRecord', () => store.systemRecords.read(name)),

    writeRecord: (name, value) =>
      store.writeOnce('writeRecord', () => store.systemRecords.write(name, value)),
  };
}
