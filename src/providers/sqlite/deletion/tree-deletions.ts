import type Database from 'better-sqlite3';
import type { InstanceStatus } from '../../../model/status.ts';
import type {
  DeleteInstanceResult,
  TreeDeletion,
  TreeDeletionResult,
} from '../../contract/management.ts';
import { deletionObstacle, type ChildLink } from '../../rules/deletions.ts';
import type { AuditedStep } from '../../rules/audit-sums.ts';
import type { Audit } from '../tables/audit.ts';
import type { DedupeKeys } from '../tables/task-rows.ts';
import type { Scope } from '../batches/group-commit.ts';
import { repeatableStarts } from '../../shared/deleted-starts.ts';
import type { DeletedStarts } from '../starts/deleted-starts.ts';
import type { Reclaims } from './reclaims.ts';
import type { StreamRows } from '../tables/stream-rows.ts';
import type { InstanceDeadlines } from '../tables/instance-deadlines.ts';
import type { LaneRows } from '../limits/lane-rows.ts';
import type { InstanceState } from '../tables/instance-state.ts';
import type { InstanceTags } from '../tables/instance-tags.ts';
import type { AwakeableRows } from '../tables/awakeable-rows.ts';
import type { UpdateRows } from '../tables/update-rows.ts';
import type { Tombstones } from '../tables/tombstones.ts';

interface Row {
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly incarnation: string;
  readonly status: InstanceStatus;
  /** Whether the `onFail` handler of a task run is queued or running. */
  readonly isHandling: 0 | 1;
  readonly historyLength: number;
  readonly parentInstanceId: string | null;
  readonly createdAt: number;
  /** When its execution began, or else when it ended. */
  readonly begunAt: number | null;
}

/** The numbers of rows that belong to instances, apart from their current histories. */
interface Holdings {
  readonly executions: number;
  readonly events: number;
  readonly messages: number;
  readonly items: number;
  readonly hasUpdates: 0 | 1;
  readonly hasAwakeables: 0 | 1;
  readonly hasDeadlines: 0 | 1;
  readonly hasEventKeys: 0 | 1;
  readonly hasState: 0 | 1;
  readonly hasStartKeys: 0 | 1;
  readonly hasLanes: 0 | 1;
}

type DeletionPlan =
  | Exclude<TreeDeletionResult, { kind: 'deleted' }>
  | {
      readonly kind: 'deletable';
      readonly rows: readonly Row[];
      readonly holdings: Holdings;
      readonly counts: DeleteInstanceResult;
    };

// Events that one call deletes itself, in about 10 ms. More are hidden now and deleted by `reclaimDeleted`.
const maxEventsAtOnce = 4_000;

/** Deletes instances with all their rows. The number of statements per tree does not depend on its size. */
export class TreeDeletions {
  readonly #audit: Audit;
  readonly #dedupeKeys: DedupeKeys;
  readonly #deletedStarts: DeletedStarts;
  readonly #reclaims: Reclaims;
  readonly #tombstones: Tombstones;
  readonly #tags: InstanceTags;
  readonly #streamRows: StreamRows;
  readonly #deadlines: InstanceDeadlines;
  readonly #updates: UpdateRows;
  readonly #awakeables: AwakeableRows;
  readonly #state: InstanceState;
  readonly #lanes: LaneRows;
  readonly #select;
  readonly #selectChildren;
  readonly #measure;
  readonly #deleteLocks;
  readonly #deleteMessages;
  readonly #deleteItems;
  readonly #deleteExecutions;
  readonly #deleteJobs;
  readonly #deleteChunks;
  readonly #deleteEventKeys;
  readonly #deleteStartKeys;
  readonly #deleteRows;

  constructor(
    db: Database.Database,
    parts: {
      readonly audit: Audit;
      readonly dedupeKeys: DedupeKeys;
      readonly deletedStarts: DeletedStarts;
      readonly reclaims: Reclaims;
      readonly tombstones: Tombstones;
      readonly instanceTags: InstanceTags;
      readonly streamRows: StreamRows;
      readonly deadlines: InstanceDeadlines;
      readonly updateRows: UpdateRows;
      readonly awakeableRows: AwakeableRows;
      readonly instanceState: InstanceState;
      readonly laneRows: LaneRows;
    },
  ) {
    this.#audit = parts.audit;
    this.#dedupeKeys = parts.dedupeKeys;
    this.#deletedStarts = parts.deletedStarts;
    this.#reclaims = parts.reclaims;
    this.#tombstones = parts.tombstones;
    this.#tags = parts.instanceTags;
    this.#streamRows = parts.streamRows;
    this.#deadlines = parts.deadlines;
    this.#updates = parts.updateRows;
    this.#awakeables = parts.awakeableRows;
    this.#state = parts.instanceState;
    this.#lanes = parts.laneRows;
    this.#select = db.prepare<[string], Row>(
      `SELECT instance_key AS instanceKey, instance_id AS instanceId, incarnation, status,
              on_fail IS NOT NULL AND on_fail IN ('queued', 'running') AS isHandling,
              history_length AS historyLength, parent_instance_id AS parentInstanceId, created_at AS createdAt,
              coalesce(execution_started_at, ended_at) AS begunAt
       FROM instances WHERE instance_id = ?`,
    );
    const keys = '(SELECT value FROM json_each(:keys))';
    // CROSS JOIN fixes the join order: list, then parents, then children.
    this.#selectChildren = db.prepare<[{ keys: string }], ChildLink>(
      `SELECT child.instance_id AS instanceId, child.parent_instance_id AS parentInstanceId
       FROM json_each(:keys) CROSS JOIN instances AS parent ON parent.instance_key = value
         CROSS JOIN instances AS child ON child.parent_instance_id = parent.instance_id`,
    );
    this.#measure = db.prepare<[{ keys: string }], Holdings>(
      `SELECT count(*) AS executions, coalesce(sum(history_length), 0) AS events,
              (SELECT count(*) FROM orchestrator_queue WHERE instance_key IN ${keys}) AS messages,
              (SELECT count(*) FROM worker_queue WHERE instance_key IN ${keys}) AS items,
              EXISTS (SELECT 1 FROM updates WHERE instance_key IN ${keys}) AS hasUpdates,
              EXISTS (SELECT 1 FROM awakeables WHERE instance_key IN ${keys}) AS hasAwakeables,
              EXISTS (SELECT 1 FROM instance_deadlines WHERE instance_key IN ${keys}) AS hasDeadlines,
              EXISTS (SELECT 1 FROM event_keys WHERE instance_key IN ${keys}) AS hasEventKeys,
              EXISTS (SELECT 1 FROM instance_state WHERE instance_key IN ${keys}) AS hasState,
              EXISTS (SELECT 1 FROM start_keys WHERE instance_key IN ${keys}) AS hasStartKeys,
              EXISTS (SELECT 1 FROM run_lanes WHERE instance_key IN ${keys}) AS hasLanes
       FROM executions WHERE instance_key IN ${keys}`,
    );
    const deleteFrom = (table: string) =>
      db.prepare<[{ keys: string }]>(`DELETE FROM ${table} WHERE instance_key IN ${keys}`);
    this.#deleteLocks = deleteFrom('instance_locks');
    this.#deleteMessages = deleteFrom('orchestrator_queue');
    this.#deleteItems = deleteFrom('worker_queue');
    this.#deleteExecutions = deleteFrom('executions');
    this.#deleteJobs = deleteFrom('jobs');
    this.#deleteChunks = deleteFrom('chunks');
    this.#deleteEventKeys = deleteFrom('event_keys');
    this.#deleteStartKeys = deleteFrom('start_keys');
    this.#deleteRows = deleteFrom('instances');
  }

  /** Deletes trees, each completely or not at all. */
  run(scope: Scope, trees: readonly TreeDeletion[]): readonly TreeDeletionResult[] {
    const steps: AuditedStep[] = [];
    let eventsLeft = maxEventsAtOnce;
    const results = trees.map((tree): TreeDeletionResult => {
      const plan = this.#plan(tree);
      if (plan.kind !== 'deletable') return plan;
      const { counts } = plan;
      if (tree.dryRun !== true && plan.rows.length > 0) {
        const deleteHistory = counts.eventsDeleted <= eventsLeft;
        if (deleteHistory) eventsLeft -= counts.eventsDeleted;
        this.#delete(scope, plan, deleteHistory);
        steps.push({ entry: tree.audit, counts: { instances: 1, ...counts } });
      }
      return { kind: 'deleted', counts };
    });
    this.#audit.record(steps, scope.now);
    return results;
  }

  /** Returns the result of a deletion without executing it. */
  preview(tree: TreeDeletion): TreeDeletionResult {
    const plan = this.#plan(tree);
    return plan.kind === 'deletable' ? { kind: 'deleted', counts: plan.counts } : plan;
  }

  #plan(tree: TreeDeletion): DeletionPlan {
    const rows = this.#read(tree.instanceIds);
    const keys = toKeys(rows);
    const children = () => this.#selectChildren.all({ keys });
    const obstacle = deletionObstacle(tree, rows, children);
    if (obstacle !== undefined) return obstacle;
    const holdings = this.#measure.get({ keys }) ?? none;
    return { kind: 'deletable', rows, holdings, counts: toCounts(rows, holdings) };
  }

  /** The existing instances in the given order, each once. */
  #read(instanceIds: readonly string[]): readonly Row[] {
    const rows: Row[] = [];
    for (const instanceId of new Set(instanceIds)) {
      const row = this.#select.get(instanceId);
      if (row !== undefined) rows.push(row);
    }
    return rows;
  }

  #delete(
    { now, effects }: Scope,
    { rows, holdings, counts }: Extract<DeletionPlan, { kind: 'deletable' }>,
    deleteHistory: boolean,
  ): void {
    const instanceKeys = rows.map(({ instanceKey }) => instanceKey);
    const keys = toKeys(rows);
    if (holdings.items > 0) {
      effects.addDeletedClaims(this.#tombstones.addOfInstances(instanceKeys, now));
      this.#deleteItems.run({ keys });
      this.#dedupeKeys.freeOfInstances(instanceKeys);
    }
    if (holdings.messages > 0) this.#deleteMessages.run({ keys });
    this.#deleteLocks.run({ keys });
    if (deleteHistory) this.#reclaims.deleteInstances(instanceKeys);
    else if (counts.eventsDeleted > 0) this.#reclaims.addInstances(instanceKeys);
    if (holdings.executions > 0) this.#deleteExecutions.run({ keys });
    if (this.#deleteJobs.run({ keys }).changes > 0) this.#deleteChunks.run({ keys });
    this.#streamRows.deleteOfInstances(keys, maxEventsAtOnce);
    this.#tags.deleteOfInstances(keys);
    if (holdings.hasDeadlines === 1) this.#deadlines.deleteOfInstances(keys);
    this.#dedupeKeys.freeOfOrchestrations(keys);
    if (holdings.hasEventKeys === 1) this.#deleteEventKeys.run({ keys });
    if (holdings.hasStartKeys === 1) this.#deleteStartKeys.run({ keys });
    if (holdings.hasUpdates === 1) this.#updates.deleteOfInstances(keys);
    if (holdings.hasAwakeables === 1) this.#awakeables.deleteOfInstances(keys);
    if (holdings.hasState === 1) this.#state.deleteOfInstances(keys);
    if (holdings.hasLanes === 1) this.#lanes.deleteRuns(keys);
    this.#deleteRows.run({ keys });
    this.#deletedStarts.add(repeatableStarts(rows, now), now);
    const instanceIds = rows.map(({ instanceId }) => instanceId);
    this.#audit.forget(instanceIds);
    effects.deleted(instanceIds);
  }
}

const none: Holdings = {
  executions: 0,
  events: 0,
  messages: 0,
  items: 0,
  hasUpdates: 0,
  hasAwakeables: 0,
  hasDeadlines: 0,
  hasEventKeys: 0,
  hasState: 0,
  hasStartKeys: 0,
  hasLanes: 0,
};

function toKeys(rows: readonly Row[]): string {
  return JSON.stringify(rows.map(({ instanceKey }) => instanceKey));
}

// Event ids are dense, so the length of a history is its number of rows.
function toCounts(rows: readonly Row[], holdings: Holdings): DeleteInstanceResult {
  return {
    instancesDeleted: rows.length,
    executionsDeleted: rows.length + holdings.executions,
    eventsDeleted: rows.reduce((sum, { historyLength }) => sum + historyLength, holdings.events),
    queueMessagesDeleted: holdings.messages + holdings.items,
  };
}
