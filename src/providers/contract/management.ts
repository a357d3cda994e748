import type { InstanceStatus } from '../../model/status.ts';

/** What a deletion took away. */
export interface DeleteInstanceResult {
  readonly instancesDeleted: number;
  readonly executionsDeleted: number;
  readonly eventsDeleted: number;
  /** Messages, timers and activities that were waiting or running. */
  readonly queueMessagesDeleted: number;
}

/** What a prune took away. */
export interface PruneResult {
  readonly instancesProcessed: number;
  readonly executionsDeleted: number;
  readonly eventsDeleted: number;
}

/** What is kept of an operation on data that is no longer there. No ids: erasure means erasure. */
export interface AuditEntry {
  /** Unique; the deletes of one bulk operation share it, and their counts add up in one record. */
  readonly auditId: string;
  readonly action: 'delete' | 'deleteBulk' | 'prune' | 'pruneBulk' | 'retention';
  readonly actor: string | null;
  /** The shape of the filter as JSON text: which conditions, how many ids, never which. */
  readonly filter: string;
}

/** An audit entry as it was kept. */
export interface AuditRecord extends AuditEntry {
  /** Grows with every record: where the next page begins. */
  readonly auditKey: number;
  readonly at: number;
  readonly instancesDeleted: number;
  readonly executionsDeleted: number;
  readonly eventsDeleted: number;
  readonly queueMessagesDeleted: number;
}

/** Instances that go together or not at all. */
export interface TreeDeletion {
  /** Children before their parents. */
  readonly instanceIds: readonly string[];
  /** Only if the last of them, the root, still is this life of its id. Absent: whichever it is. */
  readonly rootIncarnation?: string;
  /** Also what is not over. */
  readonly force: boolean;
  /** Judge and count as if, and change nothing. */
  readonly dryRun?: boolean;
  /** Recorded in the same transaction. Absent: nothing is recorded. */
  readonly audit?: AuditEntry;
}

/** What became of a tree; all but `deleted` changed nothing. */
export type TreeDeletionResult =
  /** Unknown ids count as nothing. */
  | { readonly kind: 'deleted'; readonly counts: DeleteInstanceResult }
  /** One of them is not over, and there was no force. */
  | { readonly kind: 'running'; readonly instanceId: string; readonly status: InstanceStatus }
  /** A child would lose its parent: it is not among the ids, or comes after it. */
  | { readonly kind: 'orphan'; readonly instanceId: string; readonly parentInstanceId: string }
  /** The root is another life of its id. */
  | { readonly kind: 'replaced' };

/** Executions of one instance that are to go. Conditions must all hold; the current one never goes. */
export interface ExecutionPrune {
  readonly instanceId: string;
  /** Only if it still is this life of its id. Absent: whichever it is. */
  readonly incarnation?: string;
  /** Spare the last so many, the current one among them. */
  readonly keepLast?: number;
  /** Only those that ended before this time. */
  readonly endedBefore?: number;
  /** At most so many executions in this transaction, the oldest first. */
  readonly max: number;
  readonly dryRun?: boolean;
  readonly audit?: AuditEntry;
}

/** What became of a prune; an unknown instance is not found and loses nothing. */
export interface ExecutionPruneResult {
  readonly found: boolean;
  readonly executionsDeleted: number;
  readonly eventsDeleted: number;
  readonly queueMessagesDeleted: number;
  /** Whether `max` left some for another call. */
  readonly left: boolean;
}

/** A walk over instances in the order of their creation, a bounded number of rows at a time. */
export interface ScanInstancesParams {
  /** Where the last step ended; 0 at the beginning. */
  readonly afterKey: number;
  /** How many rows to look at, whether they match or not. */
  readonly maxScanned: number;
  /** Absent: any. */
  readonly statuses?: readonly InstanceStatus[];
  /** Only those that ended before this time. */
  readonly endedBefore?: number;
  /** Only those without a parent. */
  readonly rootsOnly?: boolean;
  /** Only those with an execution that ended by continue-as-new. */
  readonly withFinishedExecutions?: boolean;
  /** The walk may end at the first row created at this time or later. */
  readonly createdBefore?: number;
}

/** An instance that a walk found. */
export interface ScannedInstance {
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly incarnation: string;
  readonly name: string;
  readonly status: InstanceStatus;
  readonly endedAt: number | null;
}

/** What a step of a walk found. */
export interface ScanInstancesResult {
  readonly instances: readonly ScannedInstance[];
  /** Where the next step begins; `null` when the walk is over. */
  readonly nextKey: number | null;
}

/** How much waits in a queue. */
export interface QueueDepth {
  /** May be claimed now. */
  readonly ready: number;
  /** Becomes visible later: timers, retries, what is held back. */
  readonly delayed: number;
  /** Held by a worker. */
  readonly claimed: number;
  /** Since when the longest waiting of those that may be claimed now has been visible. */
  readonly oldestReadyAt: number | null;
}

/** How much waits in all queues. */
export interface QueueDepths {
  /** Instances with messages. */
  readonly orchestrations: QueueDepth;
  /** Activities. */
  readonly activities: QueueDepth;
  /** Task runs, and handlers for their failures. */
  readonly tasks: QueueDepth;
  /** Messages to instances, timers included. */
  readonly messages: number;
}

/** The whole store in figures. */
export interface SystemMetrics {
  readonly instances: Readonly<Record<InstanceStatus, number>>;
  /** Executions that ended by continue-as-new and were not pruned. */
  readonly finishedExecutions: number;
  /** Roughly the bytes that the store takes up; what could be given back by a vacuum is in `reclaimableBytes`. */
  readonly storageBytes: number;
  readonly reclaimableBytes: number;
  /** Rows of deleted instances that are still to be taken away. */
  readonly pendingReclaims: number;
}

/** What an instance holds in the store. */
export interface InstanceSize {
  readonly executions: number;
  readonly events: number;
  readonly children: number;
  readonly messages: number;
  readonly activities: number;
}

/** Deleting, pruning, and what operators read. */
export interface ManagementStore {
  /**
   * Lists the direct children of instances, by id.
   *
   * A provider must:
   * - answer per id in the order asked; none for an unknown id or one without children, and detached ones are
   *   nobody's children (family/children-come-in-the-order-asked, family/detached-ones-have-no-parent)
   */
  listChildren(instanceIds: readonly string[]): Promise<readonly (readonly string[])[]>;

  /**
   * Names the parent of an instance.
   *
   * A provider must:
   * - answer `null` for a root, and `undefined` for an unknown id (family/a-parent-is-named)
   */
  getParentId(instanceId: string): Promise<string | null | undefined>;

  /**
   * Deletes trees, each in one transaction: gone for every reader at one moment, and nothing of it comes back.
   *
   * A provider must, per tree:
   * - delete history, executions, messages, timers, work items, locks and rows of every instance in it, and of no
   *   other (delete/takes-everything, delete/a-tree-goes-whole, delete/a-large-tree-goes-at-one-moment,
   *   delete/nobody-is-left-to-tell)
   * - judge inside the transaction: an instance that is pending, running, canceling or between two executions is
   *   `running` without force, and so is a task run whose handler for failure has still to run (delete/what-is-not-over-needs-force, delete/between-two-executions-is-running,
   *   delete/a-canceled-end-that-waits-is-running, delete/a-running-child-keeps-the-tree,
   *   delete/every-end-is-an-end, on-fail/keeps-its-run-from-deletion)
   * - refuse what would leave an orphan, with or without force: a child that is not among the ids, or comes after
   *   its parent (delete/refuses-to-leave-an-orphan, delete/children-come-before-their-parents,
   *   delete/a-child-born-meanwhile-is-no-orphan)
   * - count exactly, and unknown ids and repeats as nothing (delete/takes-everything,
   *   delete/unknown-ids-count-nothing, delete/concurrent-deletions-count-once)
   * - answer `replaced`, changing nothing, when the root is gone or another life of its id
   *   (delete/a-later-life-is-not-meant)
   * - with `dryRun` answer the same and change nothing (delete/a-dry-run-changes-nothing)
   * - make every later write with a token of the former life fail (former-life/a-turn-is-lost,
   *   former-life/a-first-turn-is-lost, former-life/a-result-is-lost, former-life/a-fast-turn-is-lost,
   *   former-life/a-renewal-is-lost, former-life/work-cannot-be-handed-back,
   *   former-life/has-no-point-of-no-return, former-life/a-claim-cannot-be-handed-back,
   *   former-life/a-child-tells-nobody, former-life/a-canceling-instance-stays-gone,
   *   former-life/a-race-ends-one-way)
   * - leave the id free at once (delete/leaves-the-id-free, delete/a-start-at-the-same-time-is-whole)
   * - tell of the ids with `finished`, and of claimed items with `cancelRequested`; a renewal of such an item then
   *   answers `deleted` (delete/tells-whoever-waits, delete/tells-whoever-runs-its-work,
   *   delete/tells-of-work-that-outlived-its-instance, shared/a-deletion-elsewhere-is-told)
   * - record the audit entry in the same transaction, or add to the counts of the one with its id; what took nothing
   *   away is not recorded (audit/keeps-who-what-and-how-much, audit/one-operation-has-one-record,
   *   audit/nothing-taken-nothing-recorded)
   * - where the rows are many, more than 500 events, hide them in the transaction and leave their removal to `reclaimDeleted`
   *   (reclaim/what-is-hidden-is-gone, former-life/is-not-read)
   * - keep one tree from spoiling its neighbours (delete/a-refused-tree-spares-its-neighbours)
   */
  deleteInstancesAtomic(trees: readonly TreeDeletion[]): Promise<readonly TreeDeletionResult[]>;

  /**
   * Takes away rows that deletions have only hidden, about `maxRows` in one short transaction.
   *
   * A provider must:
   * - answer how many went and whether some are left, and touch nothing that lives
   *   (reclaim/goes-on-in-steps, reclaim/spares-what-was-kept)
   * - go on with what a crash interrupted, whoever makes the call (shared/a-reclaim-goes-on-elsewhere)
   */
  reclaimDeleted(maxRows: number): Promise<{ readonly rows: number; readonly left: boolean }>;

  /**
   * Deletes finished executions, each instance in one transaction.
   *
   * A provider must, per instance:
   * - never delete the current execution, whatever the conditions, and disturb no turn of it
   *   (prune/never-takes-the-current-one, prune/leaves-a-turn-under-way, prune/leaves-the-time-to-clean-up)
   * - delete only where all conditions hold (prune/spares-the-last, prune/takes-those-that-ended-before,
   *   prune/all-conditions-must-hold)
   * - take the history and the outstanding items of the execution with it, and tell of claimed ones as a deletion
   *   does (prune/takes-executions-with-their-history, prune/takes-outstanding-items,
   *   prune/lets-a-canceled-end-come, prune/tells-whoever-runs-its-work)
   * - delete at most `max`, the oldest first, and say whether some are left (prune/goes-on-in-steps)
   * - count, audit and `dryRun` as a deletion does (prune/each-of-a-batch-by-its-own-conditions,
   *   prune/a-dry-run-changes-nothing)
   * - answer that an unknown instance, or another life of its id, is not found (prune/another-life-is-not-found)
   */
  pruneExecutionsAtomic(
    prunes: readonly ExecutionPrune[],
  ): Promise<readonly ExecutionPruneResult[]>;

  /**
   * Walks over the instances.
   *
   * A provider must:
   * - answer in the order of creation those of the next `maxScanned` rows for which all conditions hold
   *   (scan/tells-what-it-met, scan/finds-those-for-which-all-conditions-hold,
   *   scan/looks-at-no-more-than-asked, scan/ends-where-it-is-told)
   * - visit every row that stays, once (scan/visits-every-row-once, scan/goes-on-while-rows-go)
   */
  scanInstances(params: ScanInstancesParams): Promise<ScanInstancesResult>;

  /**
   * Lists audit records, the newest first.
   *
   * A provider must:
   * - list at most `limit`, and only those older than `beforeKey` (audit/comes-in-pages-newest-first)
   * - keep them through deletions, and at least the newest 10,000, but not for ever more (audit/is-bounded)
   */
  listAudit(params: {
    readonly limit: number;
    readonly beforeKey?: number;
  }): Promise<readonly AuditRecord[]>;

  /**
   * Counts what waits in the queues.
   *
   * A provider must:
   * - count each entry once, where it stands now (figures/queues-are-counted)
   */
  queueDepths(): Promise<QueueDepths>;

  /**
   * Counts what is in the store.
   *
   * A provider must:
   * - count exactly, except for bytes (figures/the-store-is-counted)
   */
  systemMetrics(): Promise<SystemMetrics>;

  /**
   * Counts what an instance holds.
   *
   * A provider must:
   * - answer `undefined` for an unknown id (figures/an-instance-is-measured)
   */
  measureInstance(instanceId: string): Promise<InstanceSize | undefined>;

  /**
   * Takes or extends a lease that one process of all may hold, under a name.
   *
   * A provider must:
   * - give it to an owner if it is free, expired, or the owner's own; `false` otherwise (lease/has-one-owner,
   *   lease/goes-on-when-it-has-expired, shared/a-lease-excludes-other-processes)
   */
  takeLease(lease: {
    readonly name: string;
    readonly owner: string;
    readonly leaseMs: number;
  }): Promise<boolean>;

  /**
   * Gives a lease back.
   *
   * A provider must:
   * - do so for its owner alone (lease/is-given-back-by-its-owner)
   */
  releaseLease(lease: { readonly name: string; readonly owner: string }): Promise<void>;

  /**
   * Reads a small record that belongs to the whole store, as text; `null` when there is none.
   *
   * A provider must:
   * - answer what was written last (record/is-kept-as-it-is)
   */
  readRecord(name: string): Promise<string | null>;

  /** Writes such a record; `null` removes it. */
  writeRecord(name: string, value: string | null): Promise<void>;
}
