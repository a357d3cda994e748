import type Database from 'better-sqlite3';
import type { InstanceStatus } from '../../../model/status.ts';
import { decodeTags } from '../../../model/values/tags.ts';
import type {
  ManagementStore,
  ScanInstancesParams,
  ScanInstancesResult,
} from '../../contract/management.ts';
import { readDefinitionQueues } from './definition-queues.ts';
import { readQueueDepths } from './queue-depths.ts';
import type { Store } from '../store.ts';
import type { Definitions } from '../tables/definitions.ts';

/** Deletes and prunes instances, and reads for operators. */
export function createManagementStore(store: Store): ManagementStore {
  return {
    listChildren: (instanceIds) =>
      store.read('listChildren', () => instanceIds.map((id) => store.parentChild.childrenOf(id))),

    getParentId: (instanceId) =>
      store.read('getParentId', () => store.parentChild.parentOf(instanceId)),

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
      const { reclaims, tombstones, deletedStarts, changeLog } = store;
      // Checked without the write lock: usually there is nothing to reclaim.
      const due = await store.read(operation, () => {
        const found = reclaims.due(store.now());
        const isAny = found.rows === 1 || found.tombstones === 1 || found.starts === 1;
        return isAny || changeLog.hasExpired(store.now()) ? found : undefined;
      });
      if (due === undefined) return { rows: 0, left: false };
      return store.writeOnce(operation, ({ now }) => {
        if (due.tombstones === 1) tombstones.purge(now);
        if (due.starts === 1) deletedStarts.purge(now);
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

    listAudit: (params) => store.read('listAudit', () => store.audit.list(params)),

    definitionQueues: (params) => readDefinitionQueues(store, params),

    queueDepths: () => readQueueDepths(store),

    systemMetrics: () => store.read('systemMetrics', () => store.metrics.system()),

    measureInstance: (instanceId) =>
      store.read('measureInstance', () => store.metrics.instance(instanceId)),

    takeLease: (lease) =>
      store.writeOnce('takeLease', ({ now }) => store.systemRecords.takeLease(lease, now)),

    releaseLease: ({ name, owner }) =>
      store.writeOnce('releaseLease', () => store.systemRecords.releaseLease(name, owner)),

    readRecord: (name) => store.read('readRecord', () => store.systemRecords.read(name)),

    writeRecord: (name, value, audit) =>
      store.writeOnce('writeRecord', ({ now }) => {
        const isChanged = audit !== undefined && store.systemRecords.read(name) !== value;
        store.systemRecords.write(name, value);
        if (isChanged) store.audit.record([{ entry: audit }], now);
      }),
  };
}

/** Reads parents and children of instances. */
export class ParentChildQueries {
  readonly #children;
  readonly #parent;

  constructor(db: Database.Database) {
    this.#children = db
      .prepare<[string], string>(
        'SELECT instance_id FROM instances WHERE parent_instance_id = ? ORDER BY instance_key',
      )
      .pluck();
    this.#parent = db
      .prepare<[string], string | null>(
        'SELECT parent_instance_id FROM instances WHERE instance_id = ?',
      )
      .pluck();
  }

  childrenOf(instanceId: string): readonly string[] {
    return this.#children.all(instanceId);
  }

  /** Returns `null` for a root and `undefined` for an unknown id. */
  parentOf(instanceId: string): string | null | undefined {
    return this.#parent.get(instanceId);
  }
}

interface Row {
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly incarnation: string;
  readonly definitionKey: number;
  readonly status: InstanceStatus;
  readonly endedAt: number | null;
  readonly tags: string | null;
}

interface Range {
  readonly count: number;
  readonly lastKey: number | null;
  /** The first row that is not part of the scan. */
  readonly endKey: number | null;
}

/** Scans `instances` by key. The cost of a step depends only on its length. */
export class InstanceScan {
  readonly #definitions: Definitions;
  readonly #range;
  readonly #select;

  constructor(db: Database.Database, definitions: Definitions) {
    this.#definitions = definitions;
    this.#range = db.prepare<
      [{ afterKey: number; max: number; createdBefore: number | null }],
      Range
    >(
      `SELECT count(*) AS count, max(instance_key) AS lastKey,
              min(iif(created_at >= :createdBefore, instance_key, NULL)) AS endKey
       FROM (SELECT instance_key, created_at FROM instances
             WHERE instance_key > :afterKey ORDER BY instance_key LIMIT +:max)`,
    );
    this.#select = db.prepare<
      [
        {
          afterKey: number;
          lastKey: number;
          statuses: string | null;
          endedBefore: number | null;
          rootsOnly: 0 | 1;
          withFinishedExecutions: 0 | 1;
        },
      ],
      Row
    >(
      `SELECT instance_key AS instanceKey, instance_id AS instanceId, incarnation,
              definition_key AS definitionKey, status, ended_at AS endedAt, tags
       FROM instances NOT INDEXED
       WHERE instance_key > :afterKey AND instance_key <= :lastKey
         AND (:statuses IS NULL OR status IN (SELECT value FROM json_each(:statuses)))
         AND (:endedBefore IS NULL OR ended_at < :endedBefore)
         AND (:rootsOnly = 0 OR parent_instance_id IS NULL)
         AND (:withFinishedExecutions = 0
              OR execution_id > 1 AND EXISTS (SELECT 1 FROM executions
                                              WHERE instance_key = instances.instance_key))
       ORDER BY instance_key`,
    );
  }

  run(params: ScanInstancesParams): ScanInstancesResult {
    const { afterKey, createdBefore, statuses, endedBefore } = params;
    const max = Math.max(params.maxScanned, 1);
    const range = this.#range.get({ afterKey, max, createdBefore: createdBefore ?? null });
    if (range === undefined || range.lastKey === null) return { instances: [], nextKey: null };
    const isLastPage = range.endKey !== null || range.count < max;
    const rows = this.#select.all({
      afterKey,
      lastKey: range.endKey === null ? range.lastKey : range.endKey - 1,
      statuses: statuses === undefined ? null : JSON.stringify(statuses),
      endedBefore: endedBefore ?? null,
      rootsOnly: params.rootsOnly === true ? 1 : 0,
      withFinishedExecutions: params.withFinishedExecutions === true ? 1 : 0,
    });
    return {
      instances: rows.map(({ definitionKey, tags, ...row }) => ({
        ...row,
        tags: decodeTags(tags),
        name: this.#definitions.get(definitionKey).name,
      })),
      nextKey: isLastPage ? null : range.lastKey,
    };
  }
}
