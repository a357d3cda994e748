import type { CancelTrigger } from '../../model/failures/errors.ts';
import type { InstanceStatus } from '../../model/status.ts';
import type { AuditEntry } from './management.ts';
import type { CancelInfo } from './work-queue.ts';

/** A request to cancel an instance. */
export interface CancelInstance {
  readonly instanceId: string;
  /** The incarnation to cancel. Absent: any. */
  readonly incarnation?: string;
  readonly reason: string;
  readonly actor: string | null;
  /** How long the orchestration may clean up before it is ended. */
  readonly cleanupMs: number;
  /** Identifies the request, so that its repeat within ten minutes changes nothing. Absent: none. */
  readonly key?: string;
  /** Recorded in the same transaction if the request changes the instance. Absent: not recorded. */
  readonly audit?: AuditEntry;
}

/** A request to terminate an instance. */
export interface TerminateInstance {
  readonly instanceId: string;
  /** The incarnation to terminate. Absent: any. */
  readonly incarnation?: string;
  readonly reason: string;
  readonly actor: string | null;
  /** Whether to terminate all descendants. Otherwise the children are canceled. */
  readonly tree: boolean;
  /** Clean-up limit of canceled children. Default: 5 minutes. */
  readonly cleanupMs?: number;
  /** Identifies the request, so that its repeat within ten minutes changes nothing. Absent: none. */
  readonly key?: string;
  /** Recorded in the same transaction if the request changes the instance. Absent: not recorded. */
  readonly audit?: AuditEntry;
}

/** The result of a request. An unknown or ended instance is not an error. */
export interface StopResult {
  readonly found: boolean;
  /** Whether this request changed anything. Repeats do not. */
  readonly changed: boolean;
  readonly status: InstanceStatus | null;
}

/** How to cancel instances whose timeouts have passed. */
export interface ApplyTimeouts {
  readonly limit: number;
  /** How long an orchestration may clean up before it is ended. */
  readonly cleanupMs: number;
}

/** What `applyTimeouts` did. */
export interface AppliedTimeouts {
  /** The number of canceled instances. */
  readonly canceled: number;
  /** When the next timeout passes, by the store's clock. `null`: no live instance has one. */
  readonly nextAt: number | null;
  readonly nowMs: number;
}

/** Whether a handler may pass its point of no return. */
export type PointOfNoReturn =
  | { readonly kind: 'passed' }
  | { readonly kind: 'canceled'; readonly cancel: CancelInfo }
  | { readonly kind: 'lost' };

/** An activity that a worker holds. */
export interface RunningItem {
  readonly operation: number;
  readonly name: string;
  readonly attempt: number;
  readonly lockedUntil: number;
  /** The name of the worker, if it gave one. */
  readonly worker: string | null;
  readonly claimedAt: number;
  readonly cancel: { readonly reason: string; readonly trigger: CancelTrigger } | null;
}

/** Stops instances without a turn, and without a worker that has their code. */
export interface CancellationStore {
  /**
   * Cancels instances immediately, each in one transaction.
   *
   * A provider must, per instance:
   * - return `found: false` for an unknown instance or another incarnation, and `changed: false` for one that is
   *   canceling or has ended, changing nothing (stop/a-missing-instance-is-not-found, stop/another-life-is-not-found,
   *   stop/what-is-over-stays-as-it-is, stop/answers-each-of-a-batch, canceled/never-changes-again)
   * - end a pending one as `canceled`, claimed or not: delete its start message, record `executionCanceled` as its
   *   only event, and notify its parent (stop/a-pending-instance-ends-at-once, stop/a-first-turn-under-way-is-lost,
   *   stop/a-pending-child-tells-its-parent)
   * - make a running one `canceling`, and keep the first reason, actor and time
   *   (stop/a-running-instance-is-canceling, stop/the-first-request-is-kept, stop/between-executions)
   * - delete its items that no worker holds (queued, between attempts, or of a lost worker) with an
   *   `activityCanceled` message for each, and flag the claimed ones; an item keeps its first reason
   *   (stop/removes-unclaimed-work, stop/flags-claimed-work, stop/reaches-work-that-is-waited-for,
   *   stop/an-item-keeps-its-own-first-reason, stop/a-removed-item-keeps-its-own-first-reason,
   *   stop/work-of-old-executions-ends-without-a-word, stop/a-lost-worker-ends-a-wait, large/cancel-request)
   * - leave items that were scheduled in a shield or as `abandon`, and those past their point of no return
   *   (stop/spares-shielded-and-abandoned-work, no-return/later-requests-are-not-delivered)
   * - leave its children to its code (child-cancel/a-request-leaves-children-to-the-code)
   * - enqueue the `cancel` message before those, end a hold-back, and keep accepting messages
   *   (stop/the-request-is-read-first, cleanup/lifts-a-hold-back, stop/messages-still-arrive, large/cancel-requests)
   * - enqueue the `cleanupExpired` message, visible after `cleanupMs`; from then on any worker may claim the
   *   instance, whatever it has registered and even if the instance is held back (cleanup/expires-at-its-moment,
   *   cleanup/needs-no-code-once-it-has-expired, cleanup/is-for-canceling-instances-alone, cleanup/ends-a-hold-back,
   *   cleanup/ends-a-wait, cleanup/a-delay-after-it-holds-for-everyone)
   * - then return that message first, unless all fit, and keep claims exclusive
   *   (cleanup/comes-first-where-messages-are-cut, cleanup/does-not-break-a-claim, cleanup/a-turn-may-go-on-after-it)
   * - return `found` and `changed`, changing nothing, for a `key` with which a request for this id changed an instance within
   *   ten minutes, also if that one was retried, replaced or deleted; a request that changed nothing leaves its key free
   *   (stop/a-repeat-changes-nothing, stop/a-repeat-spares-the-next-life, stop/a-key-belongs-to-its-id,
   *   stop/an-ineffective-request-keeps-its-key-free)
   * - treat a `key` of `terminate` and one that is older than ten minutes as new
   *   (stop/a-key-belongs-to-its-action, stop/a-key-expires-after-ten-minutes)
   * - record the audit entry in the same transaction, exactly if the request changed the instance; entries with one
   *   audit id add up in one record (audit/records-cancels, audit/commits-with-the-change)
   */
  requestCancel(requests: readonly CancelInstance[]): Promise<readonly StopResult[]>;

  /**
   * Terminates instances immediately, each in one transaction. None of their code runs afterwards.
   *
   * A provider must, per instance:
   * - return `found: false` for an unknown instance or another incarnation, `changed: false` for an ended one, changing
   *   nothing (terminate/a-missing-instance-is-not-found, audit/records-terminations, terminate/what-is-over-stays-as-it-is, terminate/answers-each-of-a-batch)
   * - make it `terminated`, with `executionTerminated` as the last event of its history (terminate/ends-at-once,
   *   terminate/a-pending-instance-ends-too, terminate/time-does-not-go-back,
   *   terminate/a-canceling-instance-keeps-its-request)
   * - delete its messages, timers, lock and unclaimed items, and flag the claimed ones, even if shielded or past
   *   their point of no return, but not those scheduled as `abandon` (terminate/drops-messages-and-timers,
   *   terminate/a-turn-under-way-is-lost, terminate/stops-all-its-work, terminate/leaves-abandoned-work)
   * - notify its parent of a failure with `INSTANCE_TERMINATED` (terminate/tells-its-parent)
   * - cancel its children, or terminate all descendants with `tree`; leave those that were started as `abandon`
   *   (terminate/asks-its-children-to-stop, terminate/its-children-may-clean-up, terminate/ends-a-whole-tree)
   * - keep the end of a canceled instance that waits for running items, and flag items past their point of no return
   *   (terminate/a-canceled-end-stands, terminate/stops-what-holds-a-canceled-end)
   * - treat a `key` as `requestCancel` does (terminate/a-repeat-changes-nothing)
   * - record the audit entry as `requestCancel` does (audit/records-terminations)
   */
  terminate(requests: readonly TerminateInstance[]): Promise<readonly StopResult[]>;

  /**
   * Cancels instances whose timeouts have passed, at most `limit`, the longest overdue first.
   *
   * A provider must:
   * - store `timeoutMs` with the start of an instance, a child, a task run or a job; it counts from when the instance may
   *   start, by the store's clock (timeout/cancels-when-it-has-passed, timeout/counts-with-a-first-turn, timeout/of-children-and-detached-starts,
   *   timeout/of-tasks, timeout/of-jobs, timeout/counts-from-the-earliest-start)
   * - do what `requestCancel` does, with the trigger `timeout` in the record, the messages and the items, needing no
   *   worker that has the code (timeout/ends-a-pending-instance, timeout/flags-claimed-work, timeout/tells-the-parent)
   * - apply each timeout once, also if several workers call it, and change nothing that has ended or is canceling
   *   (timeout/is-applied-once, timeout/leaves-what-has-ended)
   * - keep the timeout over a continue-as-new; start it again for a retry and a fork; delete it with its instance
   *   (timeout/survives-continue-as-new, timeout/starts-again-with-a-retry, timeout/is-deleted-with-its-instance)
   * - return when the next timeout passes (timeout/returns-the-next)
   */
  applyTimeouts(request: ApplyTimeouts): Promise<AppliedTimeouts>;

  /**
   * Marks an item as past its point of no return.
   *
   * A provider must:
   * - return `canceled` if a cancel was requested before, and `lost` if the token is not held, changing nothing
   *   (no-return/an-earlier-request-wins, no-return/needs-a-held-item)
   * - keep the mark across attempts, for this item only (no-return/may-be-marked-again,
   *   no-return/is-kept-over-attempts, no-return/belongs-to-one-item)
   * - from then on record cancel requests without delivering them (no-return/later-requests-are-not-delivered,
   *   no-return/outlives-every-cancel-between-attempts, no-return/a-fast-turn-may-settle-it)
   */
  markPointOfNoReturn(lockToken: string): Promise<PointOfNoReturn>;

  /**
   * Lists the activities of an instance that a worker holds.
   *
   * A provider must:
   * - list items with an unexpired lease by operation, with worker, claim time and recorded requests; return none for
   *   an unknown instance (read/running-items, no-return/later-requests-are-not-delivered)
   */
  listRunningItems(instanceId: string): Promise<readonly RunningItem[]>;
}
