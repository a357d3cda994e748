import type { InstanceStatus } from '../../../model/status.ts';
import type {
  DeleteInstanceResult,
  TreeDeletion,
  TreeDeletionResult,
} from '../../contract/management.ts';
import { deletionObstacle, type ChildLink } from '../../rules/deletions.ts';
import { keys, prepare, strings } from '../driver/columns.ts';
import { fromStoredText } from '../driver/arrays.ts';
import type { AuditedStep } from '../../rules/audit-sums.ts';
import { removeLive } from '../tables/instance-rows.ts';
import type { Audit } from '../tables/audit.ts';
import type { DedupeKeys } from '../tables/dedupe-keys.ts';
import type { Transaction } from '../driver/connection.ts';
import type { InstanceLocks } from '../tables/instance-locks.ts';
import type { JobRows } from '../jobs/job-rows.ts';
import type { Messages } from '../tables/messages.ts';
import { repeatableStarts } from '../../shared/deleted-starts.ts';
import type { DeletedStarts } from '../starts/deleted-starts.ts';
import type { Reclaims } from './reclaims.ts';
import { RunState } from '../tables/task-rows.ts';
import type { Scope } from '../driver/scope.ts';
import type { InstanceDeadlines } from '../tables/instance-deadlines.ts';
import type { EventKeys } from '../tables/event-keys.ts';
import type { InstanceState } from '../tables/instance-state.ts';
import type { InstanceTags } from '../tables/instance-tags.ts';
import type { StreamRows } from '../tables/stream-rows.ts';
import type { AwakeableRows } from '../tables/awakeable-rows.ts';
import type { UpdateRows } from '../tables/update-rows.ts';
import type { Tombstones } from '../tables/tombstones.ts';

/** An instance with the numbers of its rows. */
interface Row {
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly incarnation: string;
  readonly status: InstanceStatus;
  /** Whether the failure handler of a task run is queued or running. */
  readonly isHandling: boolean;
  /** Whether a task run was created with a dedupe key. */
  readonly hasKey: boolean;
  /** Events of the current execution, then of the past ones. */
  readonly historyLength: number;
  readonly pastEvents: number;
  readonly pastExecutions: number;
  readonly messages: number;
  readonly items: number;
  readonly isJob: boolean;
  readonly isTagged: boolean;
  readonly hasStream: boolean;
  readonly hasUpdates: boolean;
  readonly hasAwakeables: boolean;
  readonly hasDeadline: boolean;
  readonly hasEventKeys: boolean;
  readonly hasState: boolean;
  readonly hasLane: boolean;
  readonly hasStartKeys: boolean;
  readonly parentInstanceId: string | null;
  readonly createdAt: number;
  /** When its execution began, or else when it ended. */
  readonly begunAt: number | null;
  /** In stored form: see `fromStoredText`. */
  readonly childIds: readonly string[];
}

type Check =
  | Exclude<TreeDeletionResult, { kind: 'deleted' }>
  | {
      readonly kind: 'deletable';
      readonly rows: readonly Row[];
      readonly counts: DeleteInstanceResult;
    };

/** The instances to delete, those whose histories are deleted later, and the audit. */
interface Plan {
  readonly rows: Row[];
  readonly leftForLater: Row[];
  readonly steps: AuditedStep[];
}

// Maximum events that one call deletes. More are deleted later; readers do not see them meanwhile.
const maxEventsPerCall = 4_000;

interface Parts {
  readonly schema: string;
  readonly audit: Audit;
  readonly dedupeKeys: DedupeKeys;
  readonly deletedStarts: DeletedStarts;
  readonly jobRows: JobRows;
  readonly locks: InstanceLocks;
  readonly messages: Messages;
  readonly reclaims: Reclaims;
  readonly tombstones: Tombstones;
  readonly instanceTags: InstanceTags;
  readonly streamRows: StreamRows;
  readonly deadlines: InstanceDeadlines;
  readonly eventKeys: EventKeys;
  readonly updateRows: UpdateRows;
  readonly awakeableRows: AwakeableRows;
  readonly instanceState: InstanceState;
}

/**
 * Deletes instances with all their rows, with a fixed number of statements for all trees of a call.
 *
 * D1. Instances are locked first, in key order, then their `instance_locks`. A turn that starts a child holds the row of
 *     its instance, so no child is added after that. Children are read by a statement that begins under the locks.
 * D2. A transaction that waits for one of these locks finds no row when it gets it.
 * D3. The counts are read under the locks, so they equal the deletions.
 */
export class TreeDeletions {
  readonly #parts: Parts;
  readonly #statements: ReturnType<typeof statements>;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#statements = statements(parts.schema);
  }

  /** Deletes trees, each whole or not at all. */
  async run(scope: Scope, trees: readonly TreeDeletion[]): Promise<readonly TreeDeletionResult[]> {
    const ids = idsOf(trees);
    const [locked, , measured] = await scope.begin(
      scope.tx.query<{ instanceKey: number }>(...this.#statements.lock({ ids })),
      this.#parts.locks.lockOf(scope.tx, ids),
      scope.tx.query<Row>(...this.#statements.measure({ ids })),
    );
    // Skips an instance that was created between these statements.
    const lockedKeys = new Set(locked.map(({ instanceKey }) => instanceKey));
    const { results, plan } = planAll(
      trees,
      measured.filter(({ instanceKey }) => lockedKeys.has(instanceKey)),
    );
    await this.#delete(scope, plan);
    return results;
  }

  /** The results that a deletion of trees would have. */
  async preview(
    tx: Transaction,
    trees: readonly TreeDeletion[],
  ): Promise<readonly TreeDeletionResult[]> {
    if (trees.length === 0) return [];
    const rows = await tx.query<Row>(...this.#statements.measure({ ids: idsOf(trees) }));
    return planAll(trees, rows).results;
  }

  async #delete({ tx, now, effects }: Scope, { rows, leftForLater, steps }: Plan): Promise<void> {
    if (rows.length === 0) return;
    const { audit, dedupeKeys, jobRows, locks, messages, reclaims, tombstones } = this.#parts;
    const { instanceTags, deadlines, eventKeys } = this.#parts;
    const { streamRows } = this.#parts;
    const { updateRows, awakeableRows } = this.#parts;
    const { instanceState, deletedStarts } = this.#parts;
    const keysOf = (some: readonly Row[]) => some.map(({ instanceKey }) => instanceKey);
    const continued = rows.filter(({ pastExecutions }) => pastExecutions > 0);
    const laned = rows.filter(({ hasLane }) => hasLane);
    const later = new Set(leftForLater);
    const startKeyed = keysOf(rows.filter(({ hasStartKeys }) => hasStartKeys));
    const jobs = keysOf(rows.filter(({ isJob }) => isJob));
    const [tokens] = await Promise.all([
      tombstones.bury(
        tx,
        rows
          .filter(({ items }) => items > 0)
          .map(({ instanceKey }) => ({ instanceKey, executionId: null })),
        now,
      ),
      dedupeKeys.free(tx, keysOf(rows.filter(({ hasKey }) => hasKey))),
      messages.deleteAll(tx, keysOf(rows.filter((row) => row.messages > 0))),
      locks.delete(tx, keysOf(rows)),
      // Locked first, so that the deletion sees the chunks of a handler that emits concurrently.
      jobRows.lockByKey(tx, jobs),
      jobRows.delete(tx, jobs),
      reclaims.deleteInstances(tx, keysOf(rows.filter((row) => !later.has(row)))),
      reclaims.add(
        tx,
        leftForLater.map((row) => ({
          instanceKey: row.instanceKey,
          executionId: 0,
          events: eventsOf(row),
        })),
      ),
      continued.length === 0
        ? undefined
        : tx.execute(...this.#statements.deleteExecutions({ keys: keysOf(continued) })),
      streamRows.deleteOfInstances(
        tx,
        keysOf(rows.filter(({ hasStream }) => hasStream)),
        maxEventsPerCall,
      ),
      deadlines.deleteOfInstances(tx, keysOf(rows.filter(({ hasDeadline }) => hasDeadline))),
      eventKeys.deleteOfInstances(tx, keysOf(rows.filter(({ hasEventKeys }) => hasEventKeys))),
      updateRows.deleteOfInstances(tx, keysOf(rows.filter(({ hasUpdates }) => hasUpdates))),
      awakeableRows.deleteOfInstances(
        tx,
        keysOf(rows.filter(({ hasAwakeables }) => hasAwakeables)),
      ),
      instanceTags.deleteOfInstances(tx, keysOf(rows.filter(({ isTagged }) => isTagged))),
      instanceState.deleteOfInstances(tx, keysOf(rows.filter(({ hasState }) => hasState))),
      laned.length === 0
        ? undefined
        : tx.execute(...this.#statements.deleteLanes({ keys: keysOf(laned) })),
      startKeyed.length === 0
        ? undefined
        : tx.execute(...this.#statements.deleteStartKeys({ keys: startKeyed })),
      tx.execute(...this.#statements.deleteInstances({ keys: keysOf(rows) })),
      deletedStarts.add(tx, repeatableStarts(rows, now), now),
      audit.record(tx, steps, now),
      audit.forget(
        tx,
        rows.map(({ instanceId }) => instanceId),
      ),
    ]);
    effects.addDeletedClaims(tokens);
    effects.deleted(rows.map(({ instanceId }) => instanceId));
  }
}

function statements(schema: string) {
  const countOf = (table: string) =>
    `(SELECT count(*) FROM ${schema}.${table} AS held WHERE held.instance_key = instance.instance_key)`;
  const hasAny = (table: string) =>
    `(SELECT 1 FROM ${schema}.${table} AS held WHERE held.instance_key = instance.instance_key LIMIT 1) IS NOT NULL`;
  const deleteFrom = (name: string, table: string) =>
    prepare(
      name,
      { keys: keys() },
      ({ keys }) => `DELETE FROM ${schema}.${table} WHERE instance_key = ANY (${keys})`,
    );
  return {
    lock: prepare(
      'perdure_lock_trees',
      { ids: strings() },
      ({ ids }) =>
        `SELECT instance_key AS "instanceKey" FROM ${schema}.instances WHERE instance_key = ANY (ARRAY(
          SELECT instance_key FROM ${schema}.instances WHERE instance_id = ANY (${ids})))
        ORDER BY instance_key FOR UPDATE`,
    ),
    measure: prepare(
      'perdure_measure_trees',
      { ids: strings() },
      ({ ids }) => `SELECT instance_key AS "instanceKey", instance_id AS "instanceId", incarnation,
          ${new RunState(schema).status('instance')} AS status,
          coalesce(on_fail IN ('queued', 'running'), FALSE) AS "isHandling", dedupe_key IS NOT NULL AS "hasKey",
          (SELECT 1 FROM ${schema}.jobs AS job WHERE job.instance_key = instance.instance_key LIMIT 1) IS NOT NULL AS "isJob",
          tags IS NOT NULL AS "isTagged",
          (SELECT 1 FROM ${schema}.streams AS stream
            WHERE stream.instance_key = instance.instance_key LIMIT 1) IS NOT NULL AS "hasStream",
          ${hasAny('updates')} AS "hasUpdates", ${hasAny('awakeables')} AS "hasAwakeables",
          ${hasAny('instance_deadlines')} AS "hasDeadline", ${hasAny('event_keys')} AS "hasEventKeys",
          ${hasAny('start_keys')} AS "hasStartKeys",
          (SELECT 1 FROM ${schema}.instance_state AS state
           WHERE state.instance_key = instance.instance_key LIMIT 1) IS NOT NULL AS "hasState",
          ${hasAny('run_lanes')} AS "hasLane",
          parent_instance_id AS "parentInstanceId", created_at AS "createdAt",
          coalesce(execution_started_at, ended_at) AS "begunAt",
          history_length AS "historyLength", past.events AS "pastEvents", past.executions AS "pastExecutions",
          ${countOf('orchestrator_queue')} AS messages, ${countOf('worker_queue')} AS items,
          ARRAY(SELECT child.instance_id FROM ${schema}.instances AS child
                WHERE child.parent_instance_id = instance.instance_id) AS "childIds"
        FROM ${schema}.instances AS instance CROSS JOIN LATERAL (
          SELECT count(*) AS executions, coalesce(sum(one.history_length), 0)::bigint AS events
          FROM ${schema}.executions AS one
          WHERE one.instance_key = instance.instance_key AND instance.execution_id > 1) AS past
        WHERE instance_id = ANY (${ids})`,
    ),
    deleteExecutions: deleteFrom('perdure_delete_executions_of_trees', 'executions'),
    deleteLanes: deleteFrom('perdure_delete_run_lanes', 'run_lanes'),
    deleteStartKeys: deleteFrom('perdure_delete_start_keys', 'start_keys'),
    deleteInstances: prepare(
      'perdure_delete_trees',
      { keys: keys() },
      ({ keys }) => `WITH ${removeLive(schema, keys)}
        DELETE FROM ${schema}.instances WHERE instance_key = ANY (${keys})`,
    ),
  };
}

function idsOf(trees: readonly TreeDeletion[]): readonly string[] {
  return [...new Set(trees.flatMap(({ instanceIds }) => instanceIds))];
}

/** Plans the deletion of trees in order. An instance that one of them deletes is gone for the next. */
function planAll(
  trees: readonly TreeDeletion[],
  measured: readonly Row[],
): { readonly results: readonly TreeDeletionResult[]; readonly plan: Plan } {
  const byId = new Map(measured.map((row) => [row.instanceId, row]));
  const gone = new Set<string>();
  const plan: Plan = { rows: [], leftForLater: [], steps: [] };
  let eventsLeft = maxEventsPerCall;
  const results = trees.map((tree): TreeDeletionResult => {
    const checked = check(tree, byId, gone);
    if (checked.kind !== 'deletable') return checked;
    const { rows, counts } = checked;
    if (tree.dryRun === true) return { kind: 'deleted', counts };
    const isImmediate = counts.eventsDeleted <= eventsLeft;
    if (isImmediate) eventsLeft -= counts.eventsDeleted;
    for (const row of rows) {
      plan.rows.push(row);
      if (!isImmediate) plan.leftForLater.push(row);
      byId.delete(row.instanceId);
      gone.add(row.instanceId);
    }
    if (rows.length > 0)
      plan.steps.push({ entry: tree.audit, counts: { instances: 1, ...counts } });
    return { kind: 'deleted', counts };
  });
  return { results, plan };
}

/** Returns the instances of a tree and the counts of their rows, or why it cannot be deleted. */
function check(
  tree: TreeDeletion,
  byId: ReadonlyMap<string, Row>,
  gone: ReadonlySet<string>,
): Check {
  const rows = [...new Set(tree.instanceIds)].flatMap((id) => byId.get(id) ?? []);
  const children = () => rows.flatMap(childLinks).filter(({ instanceId }) => !gone.has(instanceId));
  const obstacle = deletionObstacle(tree, rows, children);
  return obstacle ?? { kind: 'deletable', rows, counts: toCounts(rows) };
}

function childLinks({ instanceId: parentInstanceId, childIds }: Row): readonly ChildLink[] {
  return childIds.map((stored) => ({ instanceId: fromStoredText(stored), parentInstanceId }));
}

function eventsOf({ historyLength, pastEvents }: Row): number {
  return historyLength + pastEvents;
}

// Event ids have no gaps, so the length of a history is the number of its rows.
function toCounts(rows: readonly Row[]): DeleteInstanceResult {
  const sum = (of: (row: Row) => number) => rows.reduce((total, row) => total + of(row), 0);
  return {
    instancesDeleted: rows.length,
    executionsDeleted: sum(({ pastExecutions }) => 1 + pastExecutions),
    eventsDeleted: sum(eventsOf),
    queueMessagesDeleted: sum(({ messages, items }) => messages + items),
  };
}
