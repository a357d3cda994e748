import type { CancelTrigger } from '../../model/failures/errors.ts';
import type { Ran } from '../../model/event.ts';
import type { TraceContext } from '../../model/trace-context.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { TerminalStatus } from '../../model/status.ts';
import type { CommitResult, Turn } from './turn.ts';

/** The parameters of a fetch of work items. */
export interface FetchWorkItemsParams {
  readonly max: number;
  readonly lockMs: number;
  readonly waitMs: number;
  readonly signal?: AbortSignal;
  /** Only activities with these names. Absent: any. */
  readonly names?: readonly string[];
  /** Only task runs with these names. Absent: any. */
  readonly tasks?: readonly string[];
  /** The name of the worker, stored with its claims for operators. */
  readonly worker?: string;
}

/** A durable request to stop an item. */
export interface CancelInfo {
  readonly reason: string;
  readonly requestedAt: number;
  readonly trigger: CancelTrigger;
}

/** One claimed activity, task run, or `onFail` handler of a task run. */
export interface WorkItem {
  readonly kind: 'activity' | 'task' | 'onFail';
  readonly lockToken: string;
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly incarnation: string;
  readonly executionId: number;
  readonly operation: number;
  /** The name of the activity or task. */
  readonly name: string;
  /** The name of the orchestration that scheduled it. For a task run: its own name. */
  readonly orchestration: string;
  readonly payload: Payload | null;
  readonly options: string | null;
  /** Claims since the last settled attempt, including this one. Used to detect poison. */
  readonly claims: number;
  /** Failed attempts so far. Used by the retry policy. */
  readonly failures: number;
  /** The last heartbeat of an earlier attempt. */
  readonly heartbeat: Payload | null;
  readonly cancel: CancelInfo | null;
  /** The store's clock at the claim. */
  readonly nowMs: number;
  /** Since when a worker could claim it, at most `nowMs`. */
  readonly dueAt: number;
  /** Set if limits of its definition count the claim: a worker without a free slot must hand it back. */
  readonly limited?: true;
  /** For an activity whose instance has any: its headers. A task run has them in `options`. */
  readonly headers?: string;
  /** The decoded trace context of an item that this process claimed on insert. A store does not set it. */
  readonly trace?: TraceContext | undefined;
  /** For `onFail`: the `Failure` of the run as JSON text. */
  readonly failure?: string;
}

/** The final outcome of a work item. */
export type WorkOutcome =
  | { readonly kind: 'completed'; readonly payload: Payload | null; readonly ran?: Ran }
  /** `failure` is a `Failure` as JSON text. */
  | {
      readonly kind: 'failed';
      readonly failure: string;
      readonly ran?: Ran;
      /** An `onFail` handler that the worker has and the creator of the run did not pass. See `NewTask.onFail`. */
      readonly onFail?: { readonly options: string | null };
    }
  /** The condition of a task run did not hold. */
  | { readonly kind: 'skipped' }
  /** It was flagged and has stopped. `leaked`: its handler still runs after its grace. */
  | { readonly kind: 'canceled'; readonly leaked: boolean; readonly ran?: Ran };

/** The outcome of a claimed work item. */
export interface WorkItemAck {
  /** The instance of the claim, for a wrapper that encodes payloads. A store ignores it. */
  readonly instanceId?: string;
  readonly lockToken: string;
  readonly outcome: WorkOutcome;
}

/** Settled activities or due timers, with the turn that they caused, which ran in memory (fast path). */
export interface TurnAck {
  /** The instance of the claim, for a wrapper that encodes payloads. A store ignores it. */
  readonly instanceId?: string;
  readonly instanceKey: number;
  readonly incarnation: string;
  readonly executionId: number;
  /** The last turn of the warm instance before this one. */
  readonly lastTurn: string;
  /** The items whose outcomes the turn has applied. */
  readonly lockTokens: readonly string[];
  /** The operations of due timers that the turn has applied. Absent: none. */
  readonly timers?: readonly number[];
  /** With `timers`: when they were read. Messages that became visible later are left for the next turn. Absent: now. */
  readonly asOfMs?: number;
  readonly turn: Turn;
}

/** A claimed work item to hand back without an outcome. */
export interface WorkItemAbandon {
  readonly lockToken: string;
  readonly delayMs: number;
  readonly giveBackClaim: boolean;
  /**
   * The handler has not started: a task run that this claim made `running` is `pending` again, and can expire.
   * Accepted even after the lease expired, until the next claim.
   */
  readonly unstarted?: boolean;
  /** Why it is handed back: a `Failure` as JSON text, stored for operators. It does not count as a failed attempt. */
  readonly explanation?: string;
}

/** Whether the token held the item. If it was asked to stop and a task run ended: the run's status. */
export type HandBackResult = boolean | TerminalStatus;

/** A claimed work item whose attempt failed and will be retried. */
export interface WorkItemRetry {
  /** The instance of the claim, for a wrapper that encodes payloads. A store ignores it. */
  readonly instanceId?: string;
  readonly lockToken: string;
  readonly delayMs: number;
  /** The `Failure` of this attempt as JSON text, stored for operators. */
  readonly failure: string;
  /** The maximum of attempts by the worker's retry policy, stored for operators. `null`: none. */
  readonly maxAttempts?: number | null;
}

/** A renewal of a claimed work item, with its latest heartbeat. */
export interface WorkItemRenewal {
  /** The instance of the claim, for a wrapper that encodes payloads. A store ignores it. */
  readonly instanceId?: string;
  readonly lockToken: string;
  /** Absent: unchanged. */
  readonly heartbeat?: Payload | null;
}

/**
 * The result of a renewal: the lease was extended (with a cancel request, if any), or is lost.
 * `deleted`: the instance was deleted or the execution pruned. Returned until the lease would have expired.
 */
export type RenewResult =
  | { readonly held: true; readonly cancel: CancelInfo | null }
  | { readonly held: false; readonly deleted?: boolean };

/** The worker queue: activities and task runs. */
export interface WorkQueue {
  /**
   * Claims up to `max` work items.
   *
   * A provider must:
   * - claim only visible items that are unlocked, or whose lock has expired
   *   (lock/an-expired-claim-of-work-is-handed-out-again, lock/concurrent-fetchers-share-out-work,
   *   order/a-max-of-zero-claims-nothing)
   * - return the item of the highest priority first, and within a priority the one that became visible first
   *   (order/the-work-that-waits-longest-is-first, order/work-of-a-lost-worker-waits-from-the-end-of-its-lock,
   *   priority/counts-across-names)
   * - create a new token for each claim, count the claim, and return claims, failures, heartbeat and the store's
   *   clock (fence/a-token-is-fresh-for-every-claim, claims/of-work-count-from-one,
   *   claims/of-work-and-instances-are-apart, order/a-work-item-comes-as-it-was-scheduled)
   * - return since when the item could be claimed: its schedule, the end of its delay or of an expired lease
   *   (order/a-claim-returns-since-when-work-was-due)
   * - return the headers of the instance with an activity, and none with a task run (headers/come-with-claimed-activities)
   * - claim only activities in `names`, but let any worker claim a flagged item in order to end it
   *   (filter/claims-only-named-activities, filter/other-activities-do-not-stand-in-the-way,
   *   filter/nothing-runnable-claims-nothing, cancel/a-flagged-item-goes-to-any-worker)
   * - return a cancel request with the item (cancel/a-flagged-item-goes-to-any-worker)
   * - return an item at its third claim or later alone, after the others (claims/the-third-of-work-comes-alone)
   * - return undecodable items unchanged, without affecting other items (data/work-comes-back-as-it-is,
   *   data/corrupt-work-harms-no-neighbour)
   * - wait up to `waitMs` for work, return as soon as there is some, and stop when the signal aborts
   *   (wait/scheduled-work-ends-it, wait/answers-at-once-when-there-is-work, wait/an-expired-lock-ends-it,
   *   wait/handed-back-work-ends-it, wait/ends-when-the-time-is-up, wait/ends-when-the-signal-aborts,
   *   wait/what-it-cannot-run-does-not-end-it)
   */
  fetchWorkItems(params: FetchWorkItemsParams): Promise<readonly WorkItem[]>;

  /**
   * Settles items.
   *
   * A provider must, per item:
   * - return `LOCK_LOST` for a token that is unknown, expired or of a finished claim, changing nothing
   *   (fence/an-unknown-token-cannot-settle-work, fence/an-expired-token-cannot-settle-work,
   *   fence/a-token-that-was-taken-over-cannot-settle-work, fence/a-token-settles-work-once,
   *   fence/a-handed-back-token-cannot-settle-work, fence/tokens-of-the-two-queues-are-apart)
   * - delete the item and enqueue its outcome as a message, together, even if it was flagged meanwhile
   *   (atomic/an-outcome-replaces-its-item, work-ack/comes-in-the-order-of-the-acks,
   *   work-ack/during-a-turn-waits-for-the-next, cancel/a-flagged-item-can-still-complete)
   * - make that message `activityCompleted`, `activityFailed` with the failure, or `activityCanceled` with the
   *   trigger and reason of the request, each with the worker named in the ack (work-ack/a-result-becomes-a-message,
   *   work-ack/a-result-may-be-nothing, work-ack/tells-who-ran-it, work-ack/a-failure-becomes-a-message,
   *   work-ack/a-cancellation-becomes-a-message)
   * - count the handlers that still ran after their grace (canceled/handlers-that-go-on-are-counted)
   * - enqueue nothing for an execution that has ended or was superseded
   *   (work-ack/of-a-finished-instance-enqueues-nothing, continue/old-completions-are-dropped)
   * - isolate errors: one bad item does not affect the others (batch/lost-work-spares-its-neighbours,
   *   work-ack/an-unreadable-failure-spares-its-neighbours)
   */
  ackWorkItems(acks: readonly WorkItemAck[]): Promise<readonly CommitResult[]>;

  /**
   * Settles items, applies due timers, and commits the turn that they caused, in one transaction per entry.
   *
   * A provider must reject an entry with `LOCK_LOST`, changing nothing, unless
   * - every token is held and unexpired, belongs to this instance and execution, and is not flagged
   *   (turn-ack/needs-every-token-held, turn-ack/needs-unexpired-tokens, turn-ack/needs-items-of-its-own-instance,
   *   turn-ack/needs-items-of-its-own-execution, turn-ack/needs-the-current-token, turn-ack/needs-unflagged-items,
   *   turn-ack/counts-once)
   * - the instance is running this incarnation and execution, and `lastTurn` is its last committed turn
   *   (turn-ack/needs-a-live-instance, turn-ack/needs-an-instance-without-a-stop, turn-ack/needs-this-incarnation,
   *   turn-ack/needs-this-execution, turn-ack/needs-the-current-execution, turn-ack/needs-the-last-turn)
   * - no claim holds the instance (turn-ack/needs-a-free-instance, timer-turn/needs-a-free-instance)
   * - the messages of all `timers` are visible by the store's clock, even if `asOfMs` is ahead of it
   *   (timer-turn/needs-timers-that-are-due, timer-turn/needs-timers-that-wait,
   *   timer-turn/a-time-to-come-takes-nothing-early)
   * - the instance has no other visible message, or with `timers` none that was visible at `asOfMs`; later ones stay
   *   (turn-ack/needs-no-visible-message, turn-ack/a-lapsed-claim-counts-as-a-message,
   *   turn-ack/a-timer-that-is-not-due-does-not-hinder, timer-turn/needs-no-other-message,
   *   timer-turn/leaves-what-came-later)
   *
   * and otherwise
   * - do what `ackOrchestrationItems` does, and delete the items without enqueueing messages
   *   (turn-ack/commits-items-and-turn-together, turn-ack/settles-several-items-at-once, turn-ack/follows-another,
   *   turn-ack/can-continue-as-new, turn-ack/continues-the-history, turn-ack/leaves-no-gap-in-the-history,
   *   turn-ack/takes-the-version-along, turn-ack/an-end-takes-what-is-left, turn-ack/an-end-cancels-children)
   * - also delete the messages of the timers (timer-turn/takes-the-timers-with-it, timer-turn/settles-items-too,
   *   timer-turn/counts-once)
   * - isolate errors: one bad entry does not affect the others (turn-ack/a-bad-one-spares-its-neighbours,
   *   timer-turn/a-late-one-spares-its-neighbours)
   */
  ackTurns(acks: readonly TurnAck[]): Promise<readonly CommitResult[]>;

  /**
   * Extends locks, and stores heartbeats.
   *
   * A provider must, per item:
   * - extend the lock by `extendMs` from now (renew/extends-from-now)
   * - extend the lock even if a cancel is requested, and return the request (renew/extends-a-flagged-item-too)
   * - keep the heartbeat for the next attempt (renew/stores-heartbeats, renew/a-heartbeat-belongs-to-its-item)
   * - return `held: false` for a token that is unknown or expired, changing nothing (renew/an-expired-lease-is-lost,
   *   renew/answers-each-token)
   * - add `deleted` for an item that was deleted while it was held, until its lease would have expired
   *   (delete/notifies-running-handlers, former-life/tokens-are-told-apart)
   */
  renewWorkItemLocks(
    renewals: readonly WorkItemRenewal[],
    extendMs: number,
  ): Promise<readonly RenewResult[]>;

  /**
   * Hands items back without an outcome.
   *
   * A provider must, per item:
   * - make the item visible after `delayMs`, and count the claim unless it is given back
   *   (abandon-work/waits-its-delay, claims/of-work-count-from-one)
   * - restore a task run that is handed back `unstarted` to its state before the first claim, unless it was claimed
   *   before or asked to stop (expiry/goes-on-for-what-is-handed-back-unstarted,
   *   expiry/spares-what-was-asked-to-stop)
   * - store an `explanation` as the last failure, without counting it (abandon-work/keeps-its-explanation)
   * - accept an `unstarted` item also after its lease, unless it was claimed again
   *   (abandon-work/unstarted-is-given-back-after-its-lease)
   * - settle a flagged item as canceled instead, and return the status of a task run that ended
   *   (retry/a-flagged-item-ends-instead, task-cancel/a-handed-back-run-ends-instead)
   * - return `false` for a token that is not held, changing nothing (abandon-work/needs-a-held-item)
   */
  abandonWorkItems(abandons: readonly WorkItemAbandon[]): Promise<readonly HandBackResult[]>;

  /**
   * Hands items back after a failed attempt.
   *
   * A provider must, per item:
   * - make the item visible after `delayMs`, and send nothing to the instance (retry/waits-its-delay,
   *   retry/is-no-outcome)
   * - count one failure and reset the claims (retry/counts-a-failure-and-resets-the-claims)
   * - store the maximum of attempts of this retry, instead of an earlier one (inspect/shows-the-limit-of-attempts)
   * - settle a flagged item as canceled instead, and return the status of a task run that ended
   *   (retry/a-flagged-item-ends-instead, task-cancel/a-handed-back-run-ends-instead)
   * - return `false` for a token that is not held, changing nothing (retry/needs-a-held-item)
   */
  retryWorkItems(retries: readonly WorkItemRetry[]): Promise<readonly HandBackResult[]>;
}
