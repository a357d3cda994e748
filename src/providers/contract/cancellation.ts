import type { CancelTrigger } from '../../model/failures/errors.ts';
import type { InstanceStatus } from '../../model/status.ts';
import type { CancelInfo } from './work-queue.ts';

/** Asks an instance to stop. */
export interface CancelInstance {
  readonly instanceId: string;
  /** The only life of the id that is meant. Absent: whichever there is. */
  readonly incarnation?: string;
  readonly reason: string;
  readonly actor: string | null;
  /** How long the code may clean up before the instance is ended without it. */
  readonly cleanupMs: number;
}

/** Ends an instance at once. */
export interface TerminateInstance {
  readonly instanceId: string;
  readonly reason: string;
  readonly actor: string | null;
  /** Also terminate its children, and theirs; otherwise they are asked to stop. */
  readonly tree: boolean;
  /** How long children that are asked to stop may clean up. Default 5 minutes. */
  readonly cleanupMs?: number;
}

/** What became of a request: never an error for an instance that is unknown or over. */
export interface StopResult {
  readonly found: boolean;
  /** Whether this request changed anything: the first one does. */
  readonly changed: boolean;
  readonly status: InstanceStatus | null;
}

/** Whether a handler may go past the point from which it can no longer be stopped. */
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
  /** Who claimed it, as far as that was said. */
  readonly worker: string | null;
  readonly claimedAt: number;
  readonly cancel: { readonly reason: string; readonly trigger: CancelTrigger } | null;
}

/** Stops instances, without a turn and without a worker that knows their code. */
export interface CancellationStore {
  /**
   * Asks instances to stop, each in one transaction, at once.
   *
   * A provider must, per instance:
   * - answer `found: false` for an unknown one or another life than the one meant, `changed: false` for one that is
   *   canceling or over, changing nothing (stop/nobody-is-not-found, stop/another-life-is-not-found,
   *   stop/what-is-over-stays-as-it-is, stop/answers-each-of-a-batch, canceled/never-changes-again)
   * - end a pending one as `canceled`, claimed or not: its start message goes, its history is the one
   *   `executionCanceled`, its parent is told (stop/a-pending-instance-ends-at-once,
   *   stop/a-first-turn-under-way-is-lost, stop/a-pending-child-tells-its-parent)
   * - make a running one `canceling`, and keep the first reason, actor and time
   *   (stop/a-running-instance-is-canceling, stop/the-first-request-is-kept, stop/between-executions)
   * - remove its items that nobody holds (queued, between attempts, or of a lost worker) with an
   *   `activityCanceled` message for each, and flag the claimed ones; a first reason stays
   *   (stop/removes-unclaimed-work, stop/flags-claimed-work, stop/reaches-work-that-is-waited-for,
   *   stop/an-item-keeps-its-own-first-reason,
   *   stop/a-removed-item-keeps-its-own-first-reason, stop/work-of-old-executions-ends-without-a-word,
   *   stop/a-lost-worker-ends-a-wait, large/cancel-request)
   * - leave items that were scheduled in a shield or as `abandon`, and those past their point of no return
   *   (stop/spares-shielded-and-abandoned-work, no-return/later-requests-are-not-delivered)
   * - leave its children to its code (child-cancel/a-request-leaves-children-to-the-code)
   * - enqueue the `cancel` message ahead of those, lift a hold-back, and go on taking messages
   *   (stop/the-request-is-read-first, cleanup/lifts-a-hold-back, stop/messages-still-arrive,
   *   large/cancel-requests)
   * - enqueue the `cleanupExpired` message, visible after `cleanupMs`; from then on anyone may claim the
   *   instance, whatever they have registered and however long it is held back
   *   (cleanup/expires-at-its-moment, cleanup/needs-no-code-once-it-has-expired,
   *   cleanup/is-for-canceling-instances-alone, cleanup/ends-a-hold-back, cleanup/ends-a-wait,
   *   cleanup/a-delay-after-it-holds-for-everyone)
   * - then hand that message out first, unless all fit, and keep claims exclusive
   *   (cleanup/comes-first-where-messages-are-cut, cleanup/does-not-break-a-claim,
   *   cleanup/a-turn-may-go-on-after-it)
   */
  requestCancel(requests: readonly CancelInstance[]): Promise<readonly StopResult[]>;

  /**
   * Ends instances, each in one transaction, at once; no code of theirs runs any more.
   *
   * A provider must, per instance:
   * - answer `found: false` for an unknown one, `changed: false` for one that is over, changing nothing
   *   (terminate/nobody-is-not-found, terminate/what-is-over-stays-as-it-is,
   *   terminate/answers-each-of-a-batch)
   * - make it `terminated`, with `executionTerminated` as the last event of its history
   *   (terminate/ends-at-once, terminate/a-pending-instance-ends-too, terminate/time-does-not-go-back,
   *   terminate/a-canceling-instance-keeps-its-request)
   * - remove its messages, timers, lock and unclaimed items, and flag the claimed ones, shielded or past their
   *   point of no return or not, but not those scheduled as `abandon` (terminate/drops-messages-and-timers,
   *   terminate/a-turn-under-way-is-lost, terminate/stops-all-its-work, terminate/leaves-abandoned-work)
   * - tell its parent that it failed with `INSTANCE_TERMINATED` (terminate/tells-its-parent)
   * - ask its children to stop, or terminate them with `tree`; leave those that were started as `abandon`
   *   (terminate/asks-its-children-to-stop, terminate/its-children-may-clean-up, terminate/ends-a-whole-tree)
   * - leave the end of one that has ended as canceled and waits for what still runs, and flag what is past its
   *   point of no return (terminate/a-canceled-end-stands, terminate/stops-what-holds-a-canceled-end)
   */
  terminate(requests: readonly TerminateInstance[]): Promise<readonly StopResult[]>;

  /**
   * Marks an item as past the point of no return.
   *
   * A provider must:
   * - answer `canceled` when a cancel was requested before, `lost` when the token is not held, changing nothing
   *   (no-return/an-earlier-request-wins, no-return/needs-a-held-item)
   * - keep the mark over attempts, for this item alone (no-return/may-be-marked-again,
   *   no-return/is-kept-over-attempts, no-return/belongs-to-one-item)
   * - from then on record cancel requests without delivering them
   *   (no-return/later-requests-are-not-delivered, no-return/outlives-every-cancel-between-attempts,
   *   no-return/a-fast-turn-may-settle-it)
   */
  markPointOfNoReturn(lockToken: string): Promise<PointOfNoReturn>;

  /**
   * Lists the activities of an instance that a worker holds.
   *
   * A provider must:
   * - list those with a lease that has not expired, by operation, with who claimed them when, and with
   *   requests that were only recorded too; none for an unknown instance (read/running-items, no-return/later-requests-are-not-delivered)
   */
  listRunningItems(instanceId: string): Promise<readonly RunningItem[]>;
}
