import type { InstanceStatus } from '../../model/status.ts';
import type { Tags } from '../../model/values/tags.ts';

/** The numbers of rows that a deletion deleted. */
export interface DeleteInstanceResult {
  readonly instancesDeleted: number;
  readonly executionsDeleted: number;
  readonly eventsDeleted: number;
  /** Messages, timers and activities that were queued or running. */
  readonly queueMessagesDeleted: number;
}

/** The numbers of rows that a prune deleted. */
export interface PruneResult {
  readonly instancesProcessed: number;
  readonly executionsDeleted: number;
  readonly eventsDeleted: number;
}

/** The actions that the audit records. `…Bulk` is an action on all instances that match a filter. */
export const auditActions = [
  'cancel',
  'cancelBulk',
  'terminate',
  'terminateBulk',
  'raiseEventBulk',
  'retry',
  'retryBulk',
  'fork',
  'pause',
  'pauseBulk',
  'resume',
  'resumeBulk',
  'delete',
  'deleteBulk',
  'prune',
  'pruneBulk',
  'retention',
  'retentionPause',
  'retentionResume',
  'schedulePut',
  'schedulePause',
  'scheduleResume',
  'scheduleDelete',
  'trigger',
  'backfill',
  'sessionShutdown',
  'limitsSet',
  'limitsReset',
] as const;

/** An action that the audit records. */
export type AuditAction = (typeof auditActions)[number];

/** The audit entry of an operator action. The store records it in the transaction of the change. */
export interface AuditEntry {
  /** Unique. The transactions of one bulk operation share it, and their counts are summed in one record. */
  readonly auditId: string;
  readonly action: AuditAction;
  readonly actor: string | null;
  /** Why. Absent: `null`. */
  readonly reason?: string | null;
  /** The instance of an action on one instance. Deleting the instance sets it to `null`. Absent: `null`. */
  readonly instanceId?: string | null;
  /** The shape of the filter as JSON text: which conditions and how many ids, but no ids. */
  readonly filter: string;
}

/** The numbers of an audit record. */
export interface AuditCounts {
  /** Instances that the action changed. A deletion counts the roots. */
  readonly instances: number;
  readonly instancesDeleted: number;
  readonly executionsDeleted: number;
  readonly eventsDeleted: number;
  readonly queueMessagesDeleted: number;
}

/** A stored audit entry. */
export interface AuditRecord extends AuditEntry, AuditCounts {
  /** Grows with every record. The cursor of a listing. */
  readonly auditKey: number;
  /** The time of the first change. */
  readonly at: number;
  readonly reason: string | null;
  readonly instanceId: string | null;
}

/** Selects audit records. Conditions are combined with AND; absent ones match all records. */
export interface ListAuditParams {
  readonly limit: number;
  /** Only records with a smaller key. Pass the last key of the previous page. */
  readonly beforeKey?: number;
  readonly auditId?: string;
  readonly actions?: readonly AuditAction[];
  readonly actor?: string;
  readonly instanceId?: string;
  /** Recorded at this time or later. */
  readonly from?: number;
  /** Recorded before this time. */
  readonly before?: number;
}

/** Instances to delete together or not at all. */
export interface TreeDeletion {
  /** Children before their parents. */
  readonly instanceIds: readonly string[];
  /** Only if the last one, the root, has this incarnation. Absent: any. */
  readonly rootIncarnation?: string;
  /** Also delete instances that have not ended. */
  readonly force: boolean;
  /** Return the result without changing anything. */
  readonly dryRun?: boolean;
  /** Recorded in the same transaction. Absent: not recorded. */
  readonly audit?: AuditEntry;
}

/** The result of a tree. All kinds except `deleted` changed nothing. */
export type TreeDeletionResult =
  /** Unknown ids count as nothing. */
  | { readonly kind: 'deleted'; readonly counts: DeleteInstanceResult }
  /** One of them has not ended, and `force` was not set. */
  | { readonly kind: 'running'; readonly instanceId: string; readonly status: InstanceStatus }
  /** A child would lose its parent: it is not among the ids, or comes after its parent. */
  | { readonly kind: 'orphan'; readonly instanceId: string; readonly parentInstanceId: string }
  /** The root is missing or has another incarnation. */
  | { readonly kind: 'replaced' };

/** Executions of one instance to delete. All conditions must hold. The current execution is never deleted. */
export interface ExecutionPrune {
  readonly instanceId: string;
  /** Only if it has this incarnation. Absent: any. */
  readonly incarnation?: string;
  /** Keep this many of the latest executions, including the current one. */
  readonly keepLast?: number;
  /** Only those that ended before this time. */
  readonly endedBefore?: number;
  /** Maximum executions to delete in this transaction, oldest first. */
  readonly max: number;
  readonly dryRun?: boolean;
  readonly audit?: AuditEntry;
}

/** The result of a prune. For an unknown instance `found` is `false`. */
export interface ExecutionPruneResult {
  readonly found: boolean;
  readonly executionsDeleted: number;
  readonly eventsDeleted: number;
  readonly queueMessagesDeleted: number;
  /** Whether `max` left some for another call. */
  readonly left: boolean;
}

/** One step of a scan over instances in order of creation. */
export interface ScanInstancesParams {
  /** The key after which the step starts. 0 at first. */
  readonly afterKey: number;
  /** Maximum rows to read, matching or not. */
  readonly maxScanned: number;
  /** Absent: any. */
  readonly statuses?: readonly InstanceStatus[];
  /** Only those that ended before this time. */
  readonly endedBefore?: number;
  /** Only those without a parent. */
  readonly rootsOnly?: boolean;
  /** Only those with an execution that ended by continue-as-new. */
  readonly withFinishedExecutions?: boolean;
  /** The scan may stop at the first row created at this time or later. */
  readonly createdBefore?: number;
}

/** An instance that a scan found. */
export interface ScannedInstance {
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly incarnation: string;
  readonly name: string;
  readonly status: InstanceStatus;
  readonly endedAt: number | null;
  readonly tags: Tags;
}

/** The result of a step. */
export interface ScanInstancesResult {
  readonly instances: readonly ScannedInstance[];
  /** Where the next step starts. `null` at the end of the scan. */
  readonly nextKey: number | null;
}

/** The depth of a queue. */
export interface QueueDepth {
  /** Entries that can be claimed now. */
  readonly ready: number;
  /** Entries that become visible later: timers, retries, held-back instances. */
  readonly delayed: number;
  /** Entries that a worker holds. */
  readonly claimed: number;
  /** Entries that no worker holds or can claim, because their instance or definition is paused. */
  readonly paused: number;
  /** Since when the longest-waiting claimable entry has been visible. */
  readonly oldestReadyAt: number | null;
}

/** The depths of all queues. */
export interface QueueDepths {
  /** Instances with messages. */
  readonly orchestrations: QueueDepth;
  /** Activities. */
  readonly activities: QueueDepth;
  /** Task runs and their `onFail` handlers. */
  readonly tasks: QueueDepth;
  /** Messages to instances, including timers. */
  readonly messages: number;
}

/** The queue of one definition; the versions of an orchestration share it. Each number is at most the cap. */
export interface DefinitionQueue extends QueueDepth {
  readonly kind: 'orchestration' | 'activity' | 'task';
  readonly name: string;
  /** Whether a number reached the cap: the numbers are lower bounds. */
  readonly capped: boolean;
}

/** Metrics of the whole store. */
export interface SystemMetrics {
  readonly instances: Readonly<Record<InstanceStatus, number>>;
  readonly pausedInstances: number;
  readonly pausedDefinitions: number;
  /** Executions that ended by continue-as-new and were not pruned. */
  readonly finishedExecutions: number;
  /** Approximate size of the store in bytes. `reclaimableBytes` is the part that a vacuum can free. */
  readonly storageBytes: number;
  readonly reclaimableBytes: number;
  /** Hidden rows of deleted instances that are not reclaimed yet. */
  readonly pendingReclaims: number;
}

/** The numbers of rows of an instance. */
export interface InstanceSize {
  readonly executions: number;
  readonly events: number;
  readonly children: number;
  readonly messages: number;
  readonly activities: number;
}

/** Deletes and prunes instances, and reads for operators. */
export interface ManagementStore {
  /**
   * Lists the direct children of instances, by id.
   *
   * A provider must:
   * - return one list per id in the order of the ids, empty for an unknown id or one without children; detached
   *   instances are not children (family/children-come-in-the-order-asked, family/detached-ones-have-no-parent)
   */
  listChildren(instanceIds: readonly string[]): Promise<readonly (readonly string[])[]>;

  /**
   * Returns the id of an instance's parent.
   *
   * A provider must:
   * - return `null` for a root, and `undefined` for an unknown id (family/a-parent-is-named)
   */
  getParentId(instanceId: string): Promise<string | null | undefined>;

  /**
   * Deletes trees, each in one transaction that is visible to all readers at one time. Nothing of a tree reappears.
   *
   * A provider must, per tree:
   * - delete history, executions, messages, timers, work items, locks and rows of every instance in it, and of no
   *   other (delete/takes-everything, delete/a-tree-goes-whole, delete/a-large-tree-goes-at-one-moment,
   *   delete/leaves-no-message-to-a-parent)
   * - check inside the transaction: without `force`, an instance that is pending, running, canceling or between two
   *   executions is `running`, and so is a task run whose `onFail` handler has not finished
   *   (delete/what-is-not-over-needs-force, delete/between-two-executions-is-running,
   *   delete/a-canceled-end-that-waits-is-running, delete/a-running-child-keeps-the-tree, delete/every-end-is-an-end,
   *   on-fail/keeps-its-run-from-deletion)
   * - reject a tree that would leave an orphan, even with `force`: a child that is not among the ids, or comes after
   *   its parent (delete/refuses-to-leave-an-orphan, delete/children-come-before-their-parents,
   *   delete/a-child-born-meanwhile-is-no-orphan)
   * - count exactly, and ignore unknown ids and repeats (delete/takes-everything, delete/unknown-ids-count-nothing,
   *   delete/concurrent-deletions-count-once)
   * - return `replaced`, changing nothing, if the root is missing or has another incarnation
   *   (delete/a-later-life-is-not-meant)
   * - with `dryRun` return the same and change nothing (delete/a-dry-run-changes-nothing)
   * - make every later write with a token of the deleted incarnation fail (former-life/a-turn-is-lost,
   *   former-life/a-first-turn-is-lost, former-life/a-result-is-lost, former-life/a-fast-turn-is-lost,
   *   former-life/a-renewal-is-lost, former-life/work-cannot-be-handed-back, former-life/has-no-point-of-no-return,
   *   former-life/a-claim-cannot-be-handed-back, former-life/a-child-sends-no-message,
   *   former-life/a-canceling-instance-stays-gone, former-life/a-race-ends-one-way)
   * - delete the state (state/is-deleted-with-its-instance)
   * - make the id available immediately (delete/leaves-the-id-free, delete/a-start-at-the-same-time-is-whole)
   * - send `finished` for the ids and `cancelRequested` for claimed items; a renewal of such an item then returns
   *   `deleted` (delete/notifies-waiting-clients, delete/notifies-running-handlers,
   *   delete/tells-of-work-that-outlived-its-instance, shared/a-deletion-elsewhere-is-told)
   * - record the audit entry in the same transaction, or add to the counts of the one with its id; do not record an
   *   operation that deleted nothing (audit/keeps-who-what-and-how-much, audit/one-operation-has-one-record,
   *   audit/nothing-taken-nothing-recorded)
   * - set `instanceId` of audit records of the deleted instances to `null` (audit/a-deleted-instance-is-not-named)
   * - delete all rows in the transaction or, for more than 500 events, hide them and leave their deletion to
   *   `reclaimDeleted` (reclaim/what-is-hidden-is-gone, former-life/is-not-read)
   * - isolate errors: one tree does not affect the others (delete/a-refused-tree-spares-its-neighbours)
   */
  deleteInstancesAtomic(trees: readonly TreeDeletion[]): Promise<readonly TreeDeletionResult[]>;

  /**
   * Deletes rows that deletions have hidden, about `maxRows` in one short transaction.
   *
   * A provider must:
   * - return how many were deleted and whether some are left, and change no existing instance
   *   (reclaim/goes-on-in-steps, reclaim/spares-what-was-kept)
   * - continue what a crash interrupted, in any process (shared/a-reclaim-goes-on-elsewhere)
   */
  reclaimDeleted(maxRows: number): Promise<{ readonly rows: number; readonly left: boolean }>;

  /**
   * Deletes finished executions, each instance in one transaction.
   *
   * A provider must, per instance:
   * - never delete the current execution, and do not affect its running turn (prune/never-takes-the-current-one,
   *   prune/leaves-a-turn-under-way, prune/leaves-the-time-to-clean-up)
   * - delete only executions that match all conditions (prune/spares-the-last, prune/takes-those-that-ended-before,
   *   prune/all-conditions-must-hold)
   * - delete the history and the outstanding items of the execution too, and report claimed ones as a deletion does
   *   (prune/takes-executions-with-their-history, prune/takes-outstanding-items, prune/lets-a-canceled-end-come,
   *   prune/notifies-running-handlers)
   * - delete at most `max`, oldest first, and return whether some are left (prune/goes-on-in-steps)
   * - count, audit and `dryRun` as a deletion does (prune/each-of-a-batch-by-its-own-conditions,
   *   prune/a-dry-run-changes-nothing)
   * - return `found: false` for an unknown instance or another incarnation (prune/another-life-is-not-found)
   */
  pruneExecutionsAtomic(
    prunes: readonly ExecutionPrune[],
  ): Promise<readonly ExecutionPruneResult[]>;

  /**
   * Scans the instances.
   *
   * A provider must:
   * - return, in order of creation, the matching instances among the next `maxScanned` rows (scan/tells-what-it-met,
   *   scan/finds-those-for-which-all-conditions-hold, scan/looks-at-no-more-than-asked, scan/ends-where-it-is-told)
   * - visit every row that is not deleted meanwhile exactly once (scan/visits-every-row-once,
   *   scan/goes-on-while-rows-go)
   */
  scanInstances(params: ScanInstancesParams): Promise<ScanInstancesResult>;

  /**
   * Lists audit records, newest first.
   *
   * A provider must:
   * - list at most `limit`, and only those older than `beforeKey` (audit/comes-in-pages-newest-first)
   * - list exactly the records that match all conditions; `from` is inclusive and `before` exclusive
   *   (audit/filters-combine)
   * - keep them through deletions, and keep at least the newest 10,000, with an upper bound (audit/is-bounded)
   */
  listAudit(params: ListAuditParams): Promise<readonly AuditRecord[]>;

  /**
   * Counts all entries of the queues. Reads every entry: use `definitionQueues` where lower bounds are enough.
   *
   * A provider must:
   * - count each entry once, in its current state (figures/queues-are-counted, pause/is-counted)
   * - not block the event loop for the whole read; entries that change meanwhile may count in either state
   *   (figures/queues-are-counted-in-parts)
   */
  queueDepths(): Promise<QueueDepths>;

  /**
   * Counts the queued and running work of each definition. Reads at most a few times `cap` index entries per
   * definition, and must not block the event loop for longer than one definition takes.
   *
   * A provider must:
   * - count each entry once, in its current state, with entries that are asked to stop (figures/queues-by-definition)
   * - count entries of paused instances and definitions that no worker holds as `paused`, and leave out definitions
   *   without entries (figures/queues-by-definition-are-paused)
   * - stop at `cap` entries, and return the definitions whose oldest entry waits longest first, at most `limit`
   *   (figures/queues-by-definition-are-capped)
   */
  definitionQueues(params: {
    readonly cap: number;
    readonly limit: number;
  }): Promise<readonly DefinitionQueue[]>;

  /**
   * Counts the rows of the store.
   *
   * A provider must:
   * - count exactly, except for bytes (figures/the-store-is-counted, pause/is-counted)
   */
  systemMetrics(): Promise<SystemMetrics>;

  /**
   * Counts the rows of an instance.
   *
   * A provider must:
   * - return `undefined` for an unknown id (figures/an-instance-is-measured)
   */
  measureInstance(instanceId: string): Promise<InstanceSize | undefined>;

  /**
   * Takes or extends a named lease that only one process can hold.
   *
   * A provider must:
   * - grant it if it is free, expired, or already the owner's; return `false` otherwise (lease/has-one-owner,
   *   lease/goes-on-when-it-has-expired, shared/a-lease-excludes-other-processes)
   */
  takeLease(lease: {
    readonly name: string;
    readonly owner: string;
    readonly leaseMs: number;
  }): Promise<boolean>;

  /**
   * Releases a lease.
   *
   * A provider must:
   * - release it only for its owner (lease/is-given-back-by-its-owner)
   */
  releaseLease(lease: { readonly name: string; readonly owner: string }): Promise<void>;

  /**
   * Reads a small text record of the whole store. `null` if there is none.
   *
   * A provider must:
   * - return the value that was written last (record/is-kept-as-it-is)
   */
  readRecord(name: string): Promise<string | null>;

  /**
   * Writes such a record. `null` deletes it.
   *
   * A provider must:
   * - record the audit entry in the same transaction, if the value changed (audit/records-settings)
   */
  writeRecord(name: string, value: string | null, audit?: AuditEntry): Promise<void>;
}
