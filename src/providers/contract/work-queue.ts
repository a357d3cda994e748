import type { CancelTrigger } from '../../model/failures/errors.ts';
import type { Ran } from '../../model/event.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { TerminalStatus } from '../../model/status.ts';
import type { CommitResult, Turn } from './turn.ts';

/** What a worker asks for when it looks for activities to run. */
export interface FetchWorkItemsParams {
  readonly max: number;
  readonly lockMs: number;
  readonly waitMs: number;
  readonly signal?: AbortSignal;
  /** Only activities with these names; absent: any. */
  readonly names?: readonly string[];
  /** Task runs with these names; absent: any, as with `names`. */
  readonly tasks?: readonly string[];
  /** Who asks: kept with what is claimed, for operators. */
  readonly worker?: string;
}

/** A durable wish that an item stop. */
export interface CancelInfo {
  readonly reason: string;
  readonly requestedAt: number;
  readonly trigger: CancelTrigger;
}

/** One claimed activity, task run, or handler for the failure of a task run. */
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
  /** The name of the orchestration that scheduled it; of a task run its own. */
  readonly orchestration: string;
  readonly payload: Payload | null;
  readonly options: string | null;
  /** Claims since the item last settled an attempt, this one included: guards against poison. */
  readonly claims: number;
  /** Failures of the handler so far: drives the retry policy. */
  readonly failures: number;
  /** What the handler last reported with `heartbeat`, in an earlier attempt. */
  readonly heartbeat: Payload | null;
  readonly cancel: CancelInfo | null;
  /** The store's clock at the claim. */
  readonly nowMs: number;
  /** With `onFail`: why the run failed, a `Failure` as JSON text. */
  readonly failure?: string;
}

/** How an activity ended for good. */
export type WorkOutcome =
  | { readonly kind: 'completed'; readonly payload: Payload | null; readonly ran?: Ran }
  /** `failure` is a `Failure` as JSON text. */
  | {
      readonly kind: 'failed';
      readonly failure: string;
      readonly ran?: Ran;
      /** A handler for failures that the worker knows of and whoever created the run did not: as `NewTask.onFail`. */
      readonly onFail?: { readonly options: string | null };
    }
  /** The condition of a task run did not hold. */
  | { readonly kind: 'skipped' }
  /** It was flagged and has stopped; `leaked` when its handler went on past the grace period. */
  | { readonly kind: 'canceled'; readonly leaked: boolean; readonly ran?: Ran };

/** A claimed activity together with how it ended. */
export interface WorkItemAck {
  readonly lockToken: string;
  readonly outcome: WorkOutcome;
}

/** Settled activities, or timers that are due, together with the turn that they led to: fast path 2. */
export interface TurnAck {
  readonly instanceKey: number;
  readonly incarnation: string;
  readonly executionId: number;
  /** The turn after which the warm instance stood when it ran this one. */
  readonly lastTurn: string;
  /** The items whose outcomes the turn has already applied. */
  readonly lockTokens: readonly string[];
  /** The operations of timers that are due and whose firing the turn has already applied. Absent: none. */
  readonly timers?: readonly number[];
  /** With `timers`: when they were looked up. What became visible later is left for the next turn. Absent: now. */
  readonly asOfMs?: number;
  readonly turn: Turn;
}

/** A claimed activity that is handed back as it was. */
export interface WorkItemAbandon {
  readonly lockToken: string;
  readonly delayMs: number;
  readonly giveBackClaim: boolean;
  /**
   * Nothing of it has begun: a task run that this claim made `running` is `pending` again, and may expire. The claim
   * counts for nothing, also when its lease has ended.
   */
  readonly unstarted?: boolean;
}

/** Whether the token held the item; where it was asked to stop and a task run ended by that, how. */
export type HandBackResult = boolean | TerminalStatus;

/** A claimed activity whose attempt failed and that is to be tried again. */
export interface WorkItemRetry {
  readonly lockToken: string;
  readonly delayMs: number;
  /** The `Failure` of this attempt as JSON text, kept for operators. */
  readonly failure: string;
}

/** A claimed activity that goes on, with what it last reported. */
export interface WorkItemRenewal {
  readonly lockToken: string;
  /** Absent: unchanged. */
  readonly heartbeat?: Payload | null;
}

/**
 * What a renewal found: the lease extended (with a cancel request, if there is one), or lost. `deleted` tells, for as
 * long as the lease would have lasted, that the instance was deleted or the execution pruned.
 */
export type RenewResult =
  | { readonly held: true; readonly cancel: CancelInfo | null }
  | { readonly held: false; readonly deleted?: boolean };

/** The worker queue: scheduled activities. */
export interface WorkQueue {
  /**
   * Locks up to `max` work items.
   *
   * A provider must:
   * - claim only visible items that are unlocked, or whose lock has expired
   *   (lock/an-expired-claim-of-work-is-handed-out-again, lock/concurrent-fetchers-share-out-work,
   *   order/a-max-of-zero-claims-nothing)
   * - hand out the item of the highest priority first, and of one priority the one that became visible first
   *   (order/the-work-that-waits-longest-is-first, order/work-of-a-lost-worker-waits-from-the-end-of-its-lock,
   *   priority/counts-across-names)
   * - give each claim a fresh token, count the claim, and report claims, failures, heartbeat and the store's
   *   clock (fence/a-token-is-fresh-for-every-claim, claims/of-work-count-from-one,
   *   claims/of-work-and-instances-are-apart, order/a-work-item-comes-as-it-was-scheduled)
   * - claim only activities in `names`, but anyone may claim a flagged item in order to end it
   *   (filter/claims-only-named-activities, filter/other-activities-do-not-stand-in-the-way,
   *   filter/nothing-runnable-claims-nothing, cancel/a-flagged-item-goes-to-anyone)
   * - report a cancel request with the item (cancel/a-flagged-item-goes-to-anyone)
   * - hand out an item at its third claim or later alone, after the others
   *   (claims/the-third-of-work-comes-alone)
   * - hand out items that it cannot make sense of as they are, and their neighbours untouched
   *   (data/work-comes-back-as-it-is, data/corrupt-work-harms-no-neighbour)
   * - wait up to `waitMs` for work, answer as soon as there is some, and stop when the signal aborts
   *   (wait/scheduled-work-ends-it, wait/answers-at-once-when-there-is-work, wait/an-expired-lock-ends-it,
   *   wait/handed-back-work-ends-it, wait/ends-when-the-time-is-up, wait/ends-when-the-signal-aborts,
   *   wait/what-it-cannot-run-does-not-end-it)
   */
  fetchWorkItems(params: FetchWorkItemsParams): Promise<readonly WorkItem[]>;

  /**
   * Settles items.
   *
   * A provider must, per item:
   * - answer `LOCK_LOST` for a token that is unknown, expired or of a finished claim, changing nothing
   *   (fence/an-unknown-token-cannot-settle-work, fence/an-expired-token-cannot-settle-work,
   *   fence/a-token-that-was-taken-over-cannot-settle-work, fence/a-token-settles-work-once,
   *   fence/a-handed-back-token-cannot-settle-work, fence/tokens-of-the-two-queues-are-apart)
   * - delete the item and enqueue its outcome as a message, together; one that was flagged meanwhile too
   *   (atomic/an-outcome-replaces-its-item, work-ack/comes-in-the-order-of-the-acks,
   *   work-ack/during-a-turn-waits-for-the-next, cancel/a-flagged-item-can-still-complete)
   * - make that message `activityCompleted`, `activityFailed` with the failure, or `activityCanceled` with the
   *   trigger and reason of the request, each with who ran it, as the ack says
   *   (work-ack/a-result-becomes-a-message, work-ack/a-result-may-be-nothing, work-ack/tells-who-ran-it,
   *   work-ack/a-failure-becomes-a-message, work-ack/a-cancellation-becomes-a-message)
   * - count the handlers that went on past their grace period (canceled/handlers-that-go-on-are-counted)
   * - enqueue nothing for an execution that is over or superseded
   *   (work-ack/of-a-finished-instance-enqueues-nothing, continue/old-completions-are-dropped)
   * - keep one bad item from spoiling its neighbours (batch/lost-work-spares-its-neighbours,
   *   work-ack/an-unreadable-failure-spares-its-neighbours)
   */
  ackWorkItems(acks: readonly WorkItemAck[]): Promise<readonly CommitResult[]>;

  /**
   * Settles items, takes timers that are due, and commits the turn that these led to, in one transaction per entry.
   *
   * A provider must refuse an entry with `LOCK_LOST`, changing nothing, unless
   * - every token is held and unexpired, belongs to this instance and execution, and is not flagged
   *   (turn-ack/needs-every-token-held, turn-ack/needs-unexpired-tokens,
   *   turn-ack/needs-items-of-its-own-instance, turn-ack/needs-items-of-its-own-execution,
   *   turn-ack/needs-the-current-token, turn-ack/needs-unflagged-items, turn-ack/counts-once)
   * - the instance is running this incarnation and execution, and `lastTurn` is its last committed turn
   *   (turn-ack/needs-a-live-instance, turn-ack/needs-an-instance-that-nobody-stops,
   *   turn-ack/needs-this-incarnation, turn-ack/needs-this-execution, turn-ack/needs-the-current-execution,
   *   turn-ack/needs-the-last-turn)
   * - no claim holds the instance (turn-ack/needs-a-free-instance, timer-turn/needs-a-free-instance)
   * - the messages of all `timers` are visible by the store's clock, also where `asOfMs` is ahead of it
   *   (timer-turn/needs-timers-that-are-due, timer-turn/needs-timers-that-wait,
   *   timer-turn/a-time-to-come-takes-nothing-early)
   * - the instance has no other visible message, or with `timers` none that was visible at `asOfMs`; what became so
   *   later stays (turn-ack/needs-no-visible-message, turn-ack/a-lapsed-claim-counts-as-a-message,
   *   turn-ack/a-timer-that-is-not-due-does-not-hinder, timer-turn/needs-no-other-message,
   *   timer-turn/leaves-what-came-later)
   *
   * and otherwise
   * - do what `ackOrchestrationItems` does, and delete the items without enqueueing messages
   *   (turn-ack/commits-items-and-turn-together, turn-ack/settles-several-items-at-once,
   *   turn-ack/follows-another, turn-ack/can-continue-as-new,
   *   turn-ack/continues-the-history, turn-ack/leaves-no-gap-in-the-history,
   *   turn-ack/takes-the-version-along, turn-ack/an-end-takes-what-is-left,
   *   turn-ack/an-end-cancels-children)
   * - delete the messages of the timers with it (timer-turn/takes-the-timers-with-it,
   *   timer-turn/settles-items-too, timer-turn/counts-once)
   * - keep one bad entry from spoiling its neighbours (turn-ack/a-bad-one-spares-its-neighbours,
   *   timer-turn/a-late-one-spares-its-neighbours)
   */
  ackTurns(acks: readonly TurnAck[]): Promise<readonly CommitResult[]>;

  /**
   * Extends locks, and stores heartbeats.
   *
   * A provider must, per item:
   * - extend the lock by `extendMs` from now (renew/extends-from-now)
   * - extend the lock even when a cancel is requested, and report the request
   *   (renew/extends-a-flagged-item-too)
   * - keep the heartbeat for the next attempt (renew/stores-heartbeats, renew/a-heartbeat-belongs-to-its-item)
   * - answer `held: false` for a token that is unknown or expired, changing nothing
   *   (renew/an-expired-lease-is-lost, renew/answers-each-token)
   * - add `deleted` for an item that was deleted while it was held, until its lease would have ended
   *   (delete/tells-whoever-runs-its-work, former-life/tokens-are-told-apart)
   */
  renewWorkItemLocks(
    renewals: readonly WorkItemRenewal[],
    extendMs: number,
  ): Promise<readonly RenewResult[]>;

  /**
   * Hands items back without an outcome.
   *
   * A provider must, per item:
   * - make the item visible again after `delayMs`, counting the claim unless it is given back
   *   (abandon-work/waits-its-delay, claims/of-work-count-from-one)
   * - make a task run that is handed back `unstarted` what it was before its first claim, unless there was an
   *   earlier one or it was asked to stop (expiry/goes-on-for-what-is-handed-back-unstarted,
   *   expiry/spares-what-was-asked-to-stop)
   * - take back what is `unstarted` also after its lease, unless the item was claimed again since
   *   (abandon-work/unstarted-is-given-back-after-its-lease)
   * - settle a flagged item as canceled instead, and answer how a task run ended by that
   *   (retry/a-flagged-item-ends-instead, task-cancel/a-handed-back-run-ends-instead)
   * - answer `false` for a token that is not held, changing nothing (abandon-work/needs-a-held-item)
   */
  abandonWorkItems(abandons: readonly WorkItemAbandon[]): Promise<readonly HandBackResult[]>;

  /**
   * Hands items back after a failed attempt.
   *
   * A provider must, per item:
   * - make the item visible again after `delayMs`, and tell the instance nothing (retry/waits-its-delay,
   *   retry/is-no-outcome)
   * - count one failure and reset the claims (retry/counts-a-failure-and-resets-the-claims)
   * - settle a flagged item as canceled instead, and answer how a task run ended by that
   *   (retry/a-flagged-item-ends-instead, task-cancel/a-handed-back-run-ends-instead)
   * - answer `false` for a token that is not held, changing nothing (retry/needs-a-held-item)
   */
  retryWorkItems(retries: readonly WorkItemRetry[]): Promise<readonly HandBackResult[]>;
}
