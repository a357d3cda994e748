import { decodeTags } from '../../../model/values/tags.ts';
import type { InstanceStatus } from '../../../model/status.ts';
import type {
  ManagementStore,
  ScanInstancesParams,
  ScanInstancesResult,
} from '../../contract/management.ts';
import type { StoreAccess } from '../batches/store-access.ts';
import { one, optional, prepare, strings } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import type { DefinitionQueues } from '../reading/definition-queues.ts';
import type { Metrics } from '../reading/metrics.ts';
import type { Definitions } from '../tables/definitions.ts';
import { RunState } from '../tables/task-rows.ts';
import type { SystemRecords } from '../tables/system-records.ts';
import type { Tombstones } from '../tables/tombstones.ts';
import type { Audit } from '../tables/audit.ts';
import type { ExecutionPrunes } from './execution-prunes.ts';
import type { Reclaims } from './reclaims.ts';
import type { DeletedStarts } from '../starts/deleted-starts.ts';
import type { TreeDeletions } from './tree-deletions.ts';

interface ManagementParts extends StoreAccess {
  readonly audit: Audit;
  readonly deletedStarts: DeletedStarts;
  readonly executionPrunes: ExecutionPrunes;
  readonly metrics: Metrics;
  readonly definitionQueues: DefinitionQueues;
  readonly parentChild: ParentChildQueries;
  readonly reclaims: Reclaims;
  readonly scan: InstanceScan;
  readonly systemRecords: SystemRecords;
  readonly tombstones: Tombstones;
  readonly treeDeletions: TreeDeletions;
}

/** Implements deletions, prunes, metrics and leases. */
export function createManagementStore(store: ManagementParts): ManagementStore {
  return {
    listChildren: (instanceIds) =>
      store.read('listChildren', (tx) => store.parentChild.childrenOf(tx, instanceIds)),

    getParentId: (instanceId) =>
      store.read('getParentId', (tx) => store.parentChild.parentOf(tx, instanceId)),

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
      const { reclaims, tombstones, deletedStarts, nowParameter } = store;
      // Usually there is nothing to reclaim: check without a transaction.
      const isDue = await store.read(operation, (tx) => reclaims.isDue(tx, nowParameter));
      if (!isDue) return { rows: 0, left: false };
      return store.writeOnce(operation, async (scope) => {
        await scope.begin();
        await tombstones.purge(scope.tx, scope.now);
        await deletedStarts.purge(scope.tx, scope.now);
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

    definitionQueues: (params) =>
      store.read('definitionQueues', (tx) =>
        store.definitionQueues.read(tx, params, store.nowParameter),
      ),

    queueDepths: () =>
      store.read('queueDepths', (tx) => store.metrics.queueDepths(tx, store.nowParameter)),

    systemMetrics: () => store.read('systemMetrics', (tx) => store.metrics.system(tx)),

    measureInstance: (instanceId) =>
      store.read('measureInstance', (tx) => store.metrics.instance(tx, instanceId)),

    takeLease: (lease) => store.systemRecords.takeLease(lease),
    releaseLease: (lease) => store.systemRecords.releaseLease(lease),
    readRecord: (name) => store.systemRecords.read(name),
    async writeRecord(name, value, audit) {
      if (audit === undefined) return store.systemRecords.write(name, value);
      return store.writeOnce('writeRecord', async (scope) => {
        const [isChanged] = await scope.begin(
          store.systemRecords.writeWithin(scope.tx, name, value),
        );
        if (isChanged) await store.audit.record(scope.tx, [{ entry: audit }], scope.now);
      });
    },
  };
}

/** Reads the children and the parents of instances. */
export class ParentChildQueries {
  readonly #statements: ReturnType<typeof parentChildStatements>;

  constructor(schema: string) {
    this.#statements = parentChildStatements(schema);
  }

  async childrenOf(
    tx: Transaction,
    instanceIds: readonly string[],
  ): Promise<readonly (readonly string[])[]> {
    const children: string[][] = instanceIds.map(() => []);
    if (instanceIds.length === 0) return children;
    const rows = await tx.query<{ index: number; instanceId: string }>(
      ...this.#statements.children({ instanceIds }),
    );
    for (const { index, instanceId } of rows) children[index]?.push(instanceId);
    return children;
  }

  /** The id of the parent; `null` for a root, `undefined` for an unknown id. */
  async parentOf(tx: Transaction, instanceId: string): Promise<string | null | undefined> {
    const [row] = await tx.query<{ parentId: string | null }>(
      ...this.#statements.parent({ instanceId }),
    );
    return row?.parentId;
  }
}

function parentChildStatements(schema: string) {
  const table = `${schema}.instances`;
  return {
    children: prepare(
      'perdure_select_child_ids',
      { instanceIds: strings() },
      ({ instanceIds }) => `SELECT (place - 1)::int AS index, child.instance_id AS "instanceId"
        FROM unnest(${instanceIds}) WITH ORDINALITY AS parent (instance_id, place) CROSS JOIN LATERAL (
          SELECT instance_key, instance_id FROM ${table} AS one
          WHERE one.parent_instance_id = parent.instance_id OFFSET 0) AS child
        ORDER BY place, child.instance_key`,
    ),
    parent: prepare(
      'perdure_select_parent_id',
      { instanceId: one<string>('text') },
      ({ instanceId }) =>
        `SELECT parent_instance_id AS "parentId" FROM ${table} WHERE instance_id = ${instanceId}`,
    ),
  };
}

interface ScanRow {
  /** Number of rows that the step read, and the key of the last one. */
  readonly scanned: number;
  readonly lastKey: number | null;
  readonly isAtEnd: boolean;
  /** `null`, like the columns below, if the step found no instance. */
  readonly instanceKey: number | null;
  readonly instanceId: string;
  readonly incarnation: string;
  readonly definitionKey: number;
  readonly status: InstanceStatus;
  readonly endedAt: number | null;
  readonly tags: string | null;
}

interface FoundRow extends ScanRow {
  readonly instanceKey: number;
}

/** Scans `instances` in key order. The cost of a step depends only on its length. */
export class InstanceScan {
  readonly #definitions: Definitions;
  readonly #step: ReturnType<typeof scanStep>;

  constructor(schema: string, definitions: Definitions) {
    this.#definitions = definitions;
    this.#step = scanStep(schema);
  }

  async run(tx: Transaction, params: ScanInstancesParams): Promise<ScanInstancesResult> {
    const { afterKey, maxScanned, createdBefore, statuses, endedBefore } = params;
    const max = Math.max(maxScanned, 1);
    const rows = await tx.query<ScanRow>(
      ...this.#step({
        afterKey,
        limit: max,
        createdBefore: createdBefore === undefined ? null : Math.ceil(createdBefore),
        statuses,
        endedBefore: endedBefore === undefined ? null : Math.ceil(endedBefore),
        rootsOnly: params.rootsOnly === true,
        withFinishedExecutions: params.withFinishedExecutions === true,
      }),
    );
    const found = rows.filter((row): row is FoundRow => row.instanceKey !== null);
    await this.#definitions.load(
      tx,
      found.map(({ definitionKey }) => definitionKey),
    );
    const [first] = rows;
    const isOver = first === undefined || first.isAtEnd || first.scanned < max;
    return {
      instances: found.map(
        ({ instanceKey, instanceId, incarnation, status, endedAt, tags, ...row }) => ({
          instanceKey,
          instanceId,
          incarnation,
          name: this.#definitions.get(row.definitionKey).name,
          status,
          endedAt,
          tags: decodeTags(tags),
        }),
      ),
      nextKey: isOver ? null : first.lastKey,
    };
  }
}

function scanStep(schema: string) {
  return prepare(
    'perdure_scan_instances',
    {
      afterKey: one<number>('bigint'),
      limit: one<number>('bigint'),
      createdBefore: one<number | null>('bigint'),
      statuses: optional(strings()),
      endedBefore: one<number | null>('bigint'),
      rootsOnly: one<boolean>('boolean'),
      withFinishedExecutions: one<boolean>('boolean'),
    },
    ({
      afterKey,
      limit,
      createdBefore,
      statuses,
      endedBefore,
      rootsOnly,
      withFinishedExecutions,
    }) =>
      `WITH step AS MATERIALIZED (
          SELECT instance_key, instance_id, incarnation, definition_key, ${new RunState(schema).status('instances')} AS status,
            execution_id, parent_instance_id, created_at, ended_at, tags
          FROM ${schema}.instances WHERE instance_key > ${afterKey} ORDER BY instance_key LIMIT ${limit}
        ), range AS (
          SELECT count(*) AS scanned, max(instance_key) AS last_key,
            min(instance_key) FILTER (WHERE created_at >= ${createdBefore}) AS end_key
          FROM step)
        SELECT scanned, last_key AS "lastKey", end_key IS NOT NULL AS "isAtEnd", instance_key AS "instanceKey",
          instance_id AS "instanceId", incarnation, definition_key AS "definitionKey", status, ended_at AS "endedAt", tags
        FROM range LEFT JOIN step ON instance_key < coalesce(end_key, last_key + 1)
          AND (${statuses} IS NULL OR status = ANY (${statuses}))
          AND (${endedBefore} IS NULL OR ended_at < ${endedBefore})
          AND (NOT ${rootsOnly} OR parent_instance_id IS NULL)
          AND (NOT ${withFinishedExecutions} OR execution_id > 1 AND (
            SELECT 1 FROM ${schema}.executions AS past WHERE past.instance_key = step.instance_key LIMIT 1) = 1)
        ORDER BY instance_key`,
  );
}
