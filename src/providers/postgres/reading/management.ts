import type { ManagementStore } from '../../contract/management.ts';
import type { Store } from '../store.ts';

/** Deletions, prunes, and what operators read. */
export function createManagementStore(store: Store): ManagementStore {
  return {
    listChildren: (instanceIds) =>
      store.read('listChildren', (tx) => store.family.childrenOf(tx, instanceIds)),

    getParentId: (instanceId) =>
      store.read('getParentId', (tx) => store.family.parentOf(tx, instanceId)),

    async deleteInstancesAtomic(trees) {
      const operation = 'deleteInstancesAtomic';
      const { treeDeletions } = store;
      if (trees.every(({ dryRun }) => dryRun === true)) {
        return store.read(operation, (tx) => treeDeletions.preview(tx, trees));
      }
      return store.writeOnce(operation, (scope) => treeDeletions.run(scope, trees));
    },

    async reclaimDeleted(maxRows) {
      const operation = 'reclaimDeleted';
      const { reclaims, tombstones, nowParameter } = store;
      // A look without a transaction: nearly always there is nothing.
      const isDue = await store.read(operation, (tx) => reclaims.isDue(tx, nowParameter));
      if (!isDue) return { rows: 0, left: false };
      return store.writeOnce(operation, async (scope) => {
        await scope.begin();
        await tombstones.purge(scope.tx, scope.now);
        return reclaims.run(scope.tx, maxRows);
      });
    },

    async pruneExecutionsAtomic(prunes) {
      const operation = 'pruneExecutionsAtomic';
      const { executionPrunes } = store;
      if (prunes.every(({ dryRun }) => dryRun === true)) {
        return store.read(operation, (tx) => executionPrunes.preview(tx, prunes));
      }
      return store.writeOnce(operation, (scope) =>
        executionPrunes.run(store.newBatch(scope), prunes),
      );
    },

    scanInstances: (params) => store.read('scanInstances', (tx) => store.scan.run(tx, params)),

    listAudit: (params) => store.read('listAudit', (tx) => store.audit.list(tx, params)),

    queueDepths: () =>
      store.read('queueDepths', (tx) => store.metrics.queueDepths(tx, store.nowParameter)),

    systemMetrics: () => store.read('systemMetrics', (tx) => store.metrics.system(tx)),

    measureInstance: (instanceId) =>
      store.read('measureInstance', (tx) => store.metrics.instance(tx, instanceId)),

    takeLease: (lease) => store.systemRecords.takeLease(lease),
    releaseLease: (lease) => store.systemRecords.releaseLease(lease),
    readRecord: (name) => store.systemRecords.read(name),
    writeRecord: (name, value) => store.systemRecords.write(name, value),
  };
}
