import type { ParentRef, StoredEvent } from '../../model/event.ts';
import type { StoredMessage } from '../../model/message.ts';
import type { CommitResult, Turn } from './turn.ts';

/** A name and version that a worker can run. `version: null` matches instances without a chosen version. */
export interface Runnable {
  readonly name: string;
  readonly version: string | null;
}

/** The parameters of a fetch of instances. */
export interface FetchOrchestrationItemsParams {
  readonly max: number;
  readonly lockMs: number;
  /** How long to wait for work. 0 returns immediately. */
  readonly waitMs: number;
  /** Ends the wait without a claim. */
  readonly signal?: AbortSignal;
  /** Only instances of these definitions. Absent: any. */
  readonly runnable?: readonly Runnable[];
  /** Instances that another build has blocked are returned immediately, regardless of their delay. */
  readonly buildId?: string;
  /** Maximum messages per claimed instance. Default: 1,000. */
  readonly maxMessages?: number;
  /** The name of the worker, stored with its claims for operators. */
  readonly worker?: string;
}

/** A message with the key by which an ack deletes it. */
export interface FetchedMessage extends StoredMessage {
  readonly messageKey: number;
}

/** One claimed instance with its visible messages. */
export interface OrchestrationItem {
  /** The store's key of this incarnation. Opaque. */
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly incarnation: string;
  readonly executionId: number;
  readonly name: string;
  readonly version: string | null;
  /** The waiting parent, from the instance's row: it can be notified even if the history cannot be read. */
  readonly parent: ParentRef | null;
  readonly lockToken: string;
  /** Claims since the last committed turn, including this one. */
  readonly claims: number;
  /** The id of the last committed turn. `null` before the first turn of an execution. */
  readonly lastTurn: string | null;
  /** The number of events in the current execution's history. */
  readonly historyLength: number;
  /** The store's clock at the claim. */
  readonly nowMs: number;
  readonly messages: readonly FetchedMessage[];
}

/** Selects a part of a history. */
export interface ReadHistoryParams {
  readonly instanceKey: number;
  readonly executionId: number;
  /** Only events with a greater id. */
  readonly after: number;
  /** Maximum events to return. */
  readonly limit?: number;
}

/** A claimed instance and the turn to commit for it. */
export interface OrchestrationAck {
  /** The instance of the claim, for a wrapper that encodes payloads. A store ignores it. */
  readonly instanceId?: string;
  readonly lockToken: string;
  readonly messageKeys: readonly number[];
  readonly turn: Turn;
  /** Keep the claim, because this worker runs steps of the instance. Absent: release it. */
  readonly keep?: boolean;
}

/** The messages of an instance that a worker holds. */
export interface HeldMessages {
  /** The visible messages, without the timer of operation 0. */
  readonly messages: readonly FetchedMessage[];
  /** Milliseconds until the next message becomes visible. `null`: none waits. */
  readonly nextInMs: number | null;
  /** The store's clock. */
  readonly nowMs: number;
}

/** Why an instance is blocked. Shown to operators, and cleared by the next committed turn. */
export interface Blocked {
  readonly reason: string;
  readonly buildId: string;
  /** `BlockedDetails` as JSON text. Absent: none. */
  readonly details?: string;
}

/** A claim on an instance to release without a turn. */
export interface OrchestrationAbandon {
  /** The instance of the claim, for a wrapper that encodes payloads. A store ignores it. */
  readonly instanceId?: string;
  readonly lockToken: string;
  readonly delayMs: number;
  /** Do not count the claim, because of a shutdown or a hold-back. */
  readonly giveBackClaim: boolean;
  /** Also after the lease expired, unless the instance was claimed again. */
  readonly evenIfExpired?: boolean;
  readonly blocked?: Blocked;
}

/** An unclaimed instance to hold back in its state after a turn. */
export interface InstanceHold {
  /** The instance of the claim, for a wrapper that encodes payloads. A store ignores it. */
  readonly instanceId?: string;
  readonly instanceKey: number;
  readonly incarnation: string;
  readonly executionId: number;
  /** Its last committed turn. */
  readonly lastTurn: string;
  readonly delayMs: number;
  readonly blocked: Blocked;
}

/** The orchestrator queue: instances that have messages to apply. */
export interface OrchestrationQueue {
  /**
   * Claims up to `max` instances that have visible messages and that this worker can run.
   *
   * A provider must:
   * - claim only unlocked instances, or those whose lock has expired; a lock is valid until just before its end
   *   (lock/a-claimed-instance-is-exclusive, lock/ends-at-its-moment, lock/an-expired-instance-is-handed-out-again,
   *   lock/concurrent-fetchers-share-out-instances, order/a-max-of-zero-claims-nothing,
   *   shared/claims-exclude-each-other)
   * - return the instances whose messages became visible first, first
   *   (order/the-instance-that-waits-longest-is-first, order/max-leaves-the-rest-for-the-next)
   * - create a new token for each claim (fence/a-token-is-fresh-for-every-claim)
   * - count the claim, and return the count, the store's clock, the last turn and the length of the history
   *   (claims/count-from-one, claims/belong-to-one-instance, claims/of-work-and-instances-are-apart,
   *   create/enqueues-the-start-with-the-row, ack/records-the-turn-as-the-last)
   * - return all visible messages of a claimed instance in order of visibility, then in enqueue order, up to
   *   `maxMessages` (order/messages-come-in-the-order-of-their-arrival,
   *   order/a-due-timer-takes-its-place-among-messages, order/an-instance-comes-once-with-all-its-messages,
   *   order/max-messages-bounds-a-claim, order/a-thousand-messages-come-unless-told-otherwise,
   *   message/comes-as-it-was-enqueued)
   * - include the start message in the first claim of an execution, even if a clock set back has put others before it
   *   (order/the-start-comes-though-the-clock-was-set-back)
   * - hide messages that are not yet visible (timer/is-hidden-until-due, timer/does-not-come-with-earlier-messages)
   * - claim only names and versions in `runnable`, compared exactly; others stay queued without delaying these
   *   (filter/claims-only-runnable-names, filter/claims-only-runnable-versions,
   *   filter/an-unpicked-version-needs-its-own-entry, filter/nothing-runnable-claims-nothing,
   *   filter/others-do-not-stand-in-the-way, filter/names-are-exact)
   * - return an item at its third claim or later alone, after the others, but do not delay it forever
   *   (claims/the-third-comes-alone, claims/two-suspects-come-one-by-one, claims/a-suspect-is-not-put-off-for-ever,
   *   blocked/a-suspect-comes-alone-to-another-build-too)
   * - return an instance that another build has blocked immediately, and one blocked by this build after its delay
   *   (blocked/comes-to-another-build-at-once, blocked/waits-its-delay-for-the-same-build,
   *   blocked/a-plain-delay-holds-for-every-build)
   * - never return an instance without a visible message, or an ended one
   *   (order/an-instance-without-messages-is-not-claimed, order/an-instance-that-is-over-is-not-claimed)
   * - return undecodable messages unchanged, without affecting other messages (data/messages-come-back-as-they-are,
   *   data/corrupt-messages-harm-no-neighbour)
   * - wait up to `waitMs` for work that this worker can run, return as soon as there is some, and stop when the
   *   signal aborts (wait/zero-answers-at-once, wait/answers-at-once-when-there-is-work, wait/a-new-instance-ends-it,
   *   wait/a-message-ends-it, wait/a-completion-ends-it, wait/a-due-timer-ends-it,
   *   wait/a-timer-set-meanwhile-ends-it, wait/an-expired-lock-ends-it, wait/handed-back-work-ends-it,
   *   wait/ends-when-the-time-is-up, wait/ends-when-the-signal-aborts, wait/an-aborted-signal-does-not-wait,
   *   wait/what-it-cannot-run-does-not-end-it, wait/one-item-goes-to-one-waiter, wait/what-a-turn-sends-ends-it)
   */
  fetchOrchestrationItems(
    params: FetchOrchestrationItemsParams,
  ): Promise<readonly OrchestrationItem[]>;

  /**
   * Reads the events after a position, for several instances.
   *
   * A provider must, per instance:
   * - return only events of that execution, in order, at most `limit` (read/histories-of-several-instances,
   *   continue/keeps-histories-apart)
   * - return none for a missing one (read/history-of-a-missing-instance-is-empty)
   * - return undecodable events unchanged (data/events-come-back-as-they-are, data/corrupt-events-harm-no-neighbour)
   */
  readHistory(params: readonly ReadHistoryParams[]): Promise<readonly (readonly StoredEvent[])[]>;

  /**
   * Commits turns independently: one transaction per item, or one for all in which each item can be rolled back.
   *
   * A provider must, per item:
   * - reject a token that is unknown, expired or of a finished claim with `LOCK_LOST`, changing nothing
   *   (fence/an-unknown-token-cannot-ack, fence/an-expired-token-cannot-ack,
   *   fence/a-token-that-was-taken-over-cannot-ack, fence/a-token-acks-once, fence/an-abandoned-token-cannot-ack,
   *   atomic/one-of-two-acks-wins, atomic/one-token-commits-once-in-a-batch)
   * - commit everything that the turn decided, or nothing of it, which leaves the claim unchanged
   *   (atomic/an-ack-commits-all-its-parts, atomic/a-refused-ack-leaves-nothing,
   *   atomic/a-refused-ack-keeps-the-claim, atomic/a-refused-name-can-be-used-later)
   * - delete exactly the named messages, and keep later ones, which make the instance claimable again
   *   (ack/deletes-the-named-messages, ack/leaves-later-arrivals, ack/spares-messages-of-others,
   *   batch/a-message-between-acks-of-one-batch-arrives)
   * - append the events at `firstEventId`, and reject ids that exist or leave a gap (ack/appends-events-in-order,
   *   ack/without-events-is-a-turn, atomic/event-ids-that-exist-are-refused, atomic/gaps-in-event-ids-are-refused,
   *   data/unreadable-history-can-be-continued)
   * - insert the work items, and reject a second one for an operation (atomic/an-operation-has-one-work-item,
   *   order/a-work-item-comes-as-it-was-scheduled)
   * - claim the work items with `claimMs` for the caller, as a fetch would, and return their tokens
   *   (claim-at-insert/reports-what-it-claimed, claim-at-insert/holds-for-its-lease,
   *   claim-at-insert/is-a-claim-like-any-other, claim-at-insert/a-refused-ack-claims-nothing)
   * - then apply `activityCancels` to this execution only: delete unclaimed items with an `activityCanceled` message
   *   for each, flag claimed ones, shielded or not, and keep queued outcomes; the first reason is kept, and the
   *   number of round trips does not depend on the length of the list (cancel/unclaimed-work-is-removed,
   *   cancel/claimed-work-is-flagged, cancel/scheduled-in-the-same-turn-never-starts,
   *   cancel/between-attempts-is-removed, cancel/a-queued-completion-stays, cancel/the-first-request-is-kept,
   *   cancel/of-nothing-is-no-error, cancel/an-expired-claim-is-none, cancel/tells-its-trigger,
   *   cancel/twice-in-a-turn-is-once, cancel/is-undone-with-its-turn, cancel/reaches-shielded-work,
   *   cancel/belongs-to-its-execution, cancel/a-settled-item-cannot-be-cancelled,
   *   cancel/a-removed-item-keeps-its-first-reason, cancel/by-a-turn-that-settles-others, large/cancels)
   * - leave items that were scheduled as `abandon`, and record requests past the point of no return without
   *   delivering them (cancel/spares-abandoned-work, no-return/later-requests-are-not-delivered)
   * - then apply `requestCancel` to each of `childCancels` that is a child of this execution
   *   (child-cancel/by-a-turn-asks-the-child, child-cancel/of-a-pending-child-tells-the-parent,
   *   child-cancel/spares-strangers, child-cancel/is-undone-with-its-turn,
   *   child-cancel/of-an-execution-spares-the-next)
   * - if the instance was canceled during the turn: start nothing that the turn schedules outside a shield and not as
   *   `abandon`, but send the cancellations to the instance; keep it `canceling`, unless the turn ends it
   *   (under-way/its-work-never-starts, under-way/shielded-and-abandoned-work-starts,
   *   under-way/its-children-never-start, under-way/shielded-and-abandoned-children-start,
   *   under-way/does-not-lower-the-status, under-way/its-end-stands, under-way/the-next-execution-is-canceling-too)
   * - insert timers that become visible at their time, or after their delay from the commit
   *   (timer/a-delay-counts-from-the-commit, timer/in-the-past-fires-at-once,
   *   timer/becoming-due-during-a-claim-waits-for-the-next, timer/fires-again-until-acked)
   * - then delete withdrawn timers, also due ones, and nothing else (timer/that-is-withdrawn-never-fires,
   *   timer/that-is-due-can-still-be-withdrawn, timer/withdrawn-in-its-own-turn-never-fires,
   *   timer/a-withdrawal-spares-other-messages)
   * - insert children with their start messages; if an id is taken, send `ifTaken` to the parent instead. With
   *   `ifStarted`, send that once the instance exists; the id is then taken only by another kind, name or input hash
   *   (child/is-created-with-its-start, child/of-a-later-execution-knows-that-execution,
   *   child/a-detached-one-has-no-parent, child/a-taken-id-is-told-to-the-parent,
   *   child/the-id-of-a-finished-instance-is-taken, child/its-own-parent-has-taken-its-id,
   *   child/the-second-of-one-id-is-taken, child/two-parents-cannot-share-one, child/a-detached-start-is-confirmed,
   *   child/a-repeated-detached-start-is-confirmed, child/a-detached-id-of-another-start-is-taken,
   *   child/the-second-detached-start-of-one-id, child/a-taken-detached-id-is-silent,
   *   child/outlives-the-turn-that-ends-its-parent)
   * - after all other writes of the turn, start detached instances with `event` or `onConflict` as `createInstances` does, and
   *   send `ifStarted`, `ifTaken` or `ifRejected`, unless the turn ends the execution; enqueue the events of new children
   *   (turn-start/brings-an-event, turn-start/raises-at-a-live-instance, turn-start/uses-or-replaces,
   *   turn-start/others-stay, turn-start/may-replace-its-own-instance, turn-start/outlives-the-turn)
   * - replace an earlier child of the same execution and name by a child with `terminateExisting`; the next execution
   *   replies to the new operation (turn-start/a-child-replaces-an-own-one)
   * - then deliver messages in order to instances that have not ended, and drop the others
   *   (message/of-a-turn-is-delivered-in-order, message/of-a-turn-to-itself-brings-the-next-turn,
   *   message/of-a-turn-to-a-missing-instance-is-dropped, message/to-a-new-child-follows-its-start)
   * - set status, output, custom status, version, `lastTurn`, and the end time for the status
   *   (ack/makes-an-instance-running, ack/completes-an-instance, ack/fails-an-instance,
   *   ack/sets-keeps-and-clears-the-custom-status)
   * - apply the changes of the state, and keep the state over a continue-as-new (state/is-written-by-the-ack,
   *   state/survives-continue-as-new)
   * - count how often the custom status was set, by the `customStatusSet` events of the turn
   *   (ack/counts-the-versions-of-the-custom-status)
   * - on continue-as-new archive the finished execution, begin the next with its start message and an empty history,
   *   and stay `running` (continue/begins-the-next-execution, continue/keeps-the-finished-execution,
   *   continue/many-in-a-row, continue/an-unpicked-version-can-be-picked-anew)
   * - move messages that belong to no execution to the next one, behind its start; delete the timers and completions
   *   of the old one, and cancel its work items (continue/carries-waiting-messages,
   *   continue/queued-completions-of-the-old-execution-are-dropped, continue/ends-outstanding-work,
   *   continue/old-timers-never-fire, continue/operations-count-anew)
   * - on a terminal outcome delete the instance's remaining messages, timers and unclaimed work items, and flag
   *   claimed ones (terminal/drops-waiting-messages, terminal/drops-timers, terminal/removes-unclaimed-work,
   *   terminal/flags-claimed-work)
   * - then cancel the live children of the execution, at every end and on continue-as-new, except those started as
   *   `abandon` (child-cancel/by-the-end-of-the-parent, child-cancel/of-the-last-turn,
   *   child-cancel/by-continue-as-new)
   * - on a `canceled` outcome keep the instance `canceling`, without turns or messages, while an item that is not
   *   `abandon` is left; settling the last one makes it `canceled` and notifies its parent
   *   (canceled/ends-at-once-when-nothing-runs, canceled/waits-for-what-runs, canceled/the-last-one-ends-it,
   *   canceled/a-lost-worker-does-not-hold-it, canceled/does-not-wait-for-abandoned-work,
   *   canceled/shielded-work-is-stopped-by-the-end, canceled/waits-for-what-cannot-be-stopped,
   *   canceled/tells-its-parent-at-its-end, canceled/without-a-request-names-its-own, canceled/can-be-listed)
   * - never change a terminal state (terminal/never-changes-again, fence/a-late-turn-cannot-reopen-an-instance)
   * - reset the claim count and the hold-back, and release the lock (lock/an-ack-releases-the-instance,
   *   claims/are-reset-by-a-turn, claims/are-reset-by-a-turn-that-leaves-messages, blocked/is-cleared-by-a-good-turn)
   * - with `keep` and a `running` outcome keep the lock, its token and its lease, reset the claim count, and return
   *   `kept`, with `paused` if the instance or its definition is paused (keep/an-ack-keeps-the-claim,
   *   keep/resets-the-claims, keep/ends-with-the-next-ack, keep/an-end-releases-it, keep/tells-of-a-paused-instance,
   *   keep/tells-of-a-paused-definition)
   * - never insert the instance itself, so that a deleted one does not reappear
   *   (fence/a-refused-ack-inserts-no-instance)
   * - isolate errors: one bad item does not affect the others (batch/a-lost-ack-spares-its-neighbours,
   *   batch/a-bad-turn-spares-its-neighbours, batch/calls-at-once-do-not-spoil-each-other)
   */
  ackOrchestrationItems(acks: readonly OrchestrationAck[]): Promise<readonly CommitResult[]>;

  /**
   * Reads the messages of instances that the caller holds.
   *
   * A provider must, per token:
   * - return the visible messages in the order of a claim, without timers of operation 0, and the time until the next
   *   one (held/returns-new-messages, held/excludes-the-guard, held/returns-the-time-of-the-next-timer)
   * - return `undefined` for a token that is not held (held/needs-a-held-claim)
   */
  readHeldMessages(lockTokens: readonly string[]): Promise<readonly (HeldMessages | undefined)[]>;

  /**
   * Releases claims without a turn.
   *
   * A provider must, per item:
   * - make the instance claimable after `delayMs`, with all its messages; messages that arrive meanwhile do not
   *   shorten the delay (abandon/hands-the-instance-back-at-once, abandon/waits-its-delay,
   *   abandon/a-delay-is-not-a-lock)
   * - decrement the claim count if requested, never below zero (claims/an-abandoned-claim-counts-unless-given-back,
   *   blocked/counts-no-claim)
   * - record why and since when the instance is blocked: the latest reason, build and details, the first time
   *   (blocked/is-visible-on-the-record, blocked/names-the-newest-reason-since-the-first,
   *   blocked/details-belong-to-the-newest-reason, blocked/still-takes-messages)
   * - return `false` for a token that is not held, changing nothing (abandon/needs-a-held-claim,
   *   batch/abandons-are-answered-each)
   * - with `evenIfExpired` do the same for the last token of an instance after its lease
   *   (abandon/an-expired-claim-can-be-given-back)
   */
  abandonOrchestrationItems(abandons: readonly OrchestrationAbandon[]): Promise<readonly boolean[]>;

  /**
   * Holds back unclaimed instances, after a turn in memory blocked its worker.
   *
   * A provider must, per instance:
   * - hold it back as an abandon with `blocked` does; queued and later messages wait for the delay, or for another
   *   build (hold/keeps-what-waits-and-what-comes, hold/is-ended-by-the-next-turn)
   * - return `false`, changing nothing, unless it is live with this incarnation and execution, `lastTurn` is its last
   *   turn, and it is not claimed (hold/needs-a-free-instance-as-it-stood)
   */
  holdInstances(holds: readonly InstanceHold[]): Promise<readonly boolean[]>;

  /**
   * Extends locks.
   *
   * A provider must, per token:
   * - extend the lock by `extendMs` from now (lock/renewal-extends-from-now)
   * - return `false` for a token that is not held or has expired (lock/an-expired-claim-cannot-be-renewed,
   *   lock/a-renewal-answers-each-token)
   */
  renewOrchestrationLocks(
    lockTokens: readonly string[],
    extendMs: number,
  ): Promise<readonly boolean[]>;
}
