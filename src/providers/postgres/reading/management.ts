import type { InstanceStatus } from '../../../model/status.ts';
import type {
  ManagementStore,
  ScanInstancesParams,
  ScanInstancesResult,
} from '../../contract/management.ts';
import { text, texts } from '../driver/arrays.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import type { Store } from '../store.ts';
import type { Definitions } from '../tables/definitions.ts';
import { RunState } from '../tables/run-state.ts';

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

/** Reads who is whose child. */
export class InstanceFamily {
  readonly #children: Statement;
  readonly #parent: Statement;

  constructor(schema: string) {
    const table = `${schema}.instances`;
    this.#children = {
      name: 'perdure_select_child_ids',
      text: `SELECT (place - 1)::int AS index, child.instance_id AS "instanceId"
        FROM unnest($1::text[]) WITH ORDINALITY AS parent (instance_id, place) CROSS JOIN LATERAL (
          SELECT instance_key, instance_id FROM ${table} AS one
          WHERE one.parent_instance_id = parent.instance_id OFFSET 0) AS child
        ORDER BY place, child.instance_key`,
    };
    this.#parent = {
      name: 'perdure_select_parent_id',
      text: `SELECT parent_instance_id AS "parentId" FROM ${table} WHERE instance_id = $1`,
    };
  }

  async childrenOf(
    tx: Transaction,
    instanceIds: readonly string[],
  ): Promise<readonly (readonly string[])[]> {
    const children: string[][] = instanceIds.map(() => []);
    if (instanceIds.length === 0) return children;
    const rows = await tx.query<{ index: number; instanceId: string }>(this.#children, [
      texts(instanceIds),
    ]);
    for (const { index, instanceId } of rows) children[index]?.push(instanceId);
    return children;
  }

  /** `null` for a root, `undefined` for an unknown id. */
  async parentOf(tx: Transaction, instanceId: string): Promise<string | null | undefined> {
    const [row] = await tx.query<{ parentId: string | null }>(this.#parent, [text(instanceId)]);
    return row?.parentId;
  }
}

interface Row {
  /** How many rows the step has looked at, and the last of them. */
  readonly scanned: number;
  readonly lastKey: number | null;
  readonly isAtEnd: boolean;
  /** `null`, like all of the instance, when none was found. */
  readonly instanceKey: number | null;
  readonly instanceId: string;
  readonly incarnation: string;
  readonly definitionKey: number;
  readonly status: InstanceStatus;
  readonly endedAt: number | null;
}

interface FoundRow extends Row {
  readonly instanceKey: number;
}

/** Walks over `instances` by key: the cost of a step depends on nothing but its length. */
export class InstanceScan {
  readonly #definitions: Definitions;
  readonly #step: Statement;

  constructor(schema: string, definitions: Definitions) {
    this.#definitions = definitions;
    this.#step = {
      name: 'perdure_scan_instances',
      text: `WITH step AS MATERIALIZED (
          SELECT instance_key, instance_id, incarnation, definition_key, ${new RunState(schema).status('instances')} AS status,
            execution_id, parent_instance_id, created_at, ended_at
          FROM ${schema}.instances WHERE instance_key > $1::bigint ORDER BY instance_key LIMIT $2::bigint
        ), range AS (
          SELECT count(*) AS scanned, max(instance_key) AS last_key,
            min(instance_key) FILTER (WHERE created_at >= $3::bigint) AS end_key
          FROM step)
        SELECT scanned, last_key AS "lastKey", end_key IS NOT NULL AS "isAtEnd", instance_key AS "instanceKey",
          instance_id AS "instanceId", incarnation, definition_key AS "definitionKey", status, ended_at AS "endedAt"
        FROM range LEFT JOIN step ON instance_key < coalesce(end_key, last_key + 1)
          AND ($4::text[] IS NULL OR status = ANY ($4::text[]))
          AND ($5::bigint IS NULL OR ended_at < $5::bigint)
          AND (NOT $6 OR parent_instance_id IS NULL)
          AND (NOT $7 OR execution_id > 1 AND (
            SELECT 1 FROM ${schema}.executions AS past WHERE past.instance_key = step.instance_key LIMIT 1) = 1)
        ORDER BY instance_key`,
    };
  }

  async run(tx: Transaction, params: ScanInstancesParams): Promise<ScanInstancesResult> {
    const { afterKey, maxScanned, createdBefore, statuses, endedBefore } = params;
    const max = Math.max(maxScanned, 1);
    const rows = await tx.query<Row>(this.#step, [
      afterKey,
      max,
      createdBefore === undefined ? null : Math.ceil(createdBefore),
      statuses === undefined ? null : texts(statuses),
      endedBefore === undefined ? null : Math.ceil(endedBefore),
      params.rootsOnly === true,
      params.withFinishedExecutions === true,
    ]);
    const found = rows.filter((row): row is FoundRow => row.instanceKey !== null);
    await this.#definitions.load(
      tx,
      found.map(({ definitionKey }) => definitionKey),
    );
    const [first] = rows;
    const isOver = first === undefined || first.isAtEnd || first.scanned < max;
    return {
      instances: found.map(({ instanceKey, instanceId, incarnation, status, endedAt, ...row }) => ({
        instanceKey,
        instanceId,
        incarnation,
        name: this.#definitions.get(row.definitionKey).name,
        status,
        endedAt,
      })),
      nextKey: isOver ? null : first.lastKey,
    };
  }
}
