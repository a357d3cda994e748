import type { ParentRef, StoredEvent } from '../../model/event.ts';
import type { StoredMessage } from '../../model/message.ts';
import type { CommitResult, Turn } from './turn.ts';

/** A name and version that a worker can run; `version: null` stands for instances whose version is not yet picked. */
export interface Runnable {
  readonly name: string;
  readonly version: string | null;
}

/** What a worker asks for when it looks for instances to turn. */
export interface FetchOrchestrationItemsParams {
  readonly max: number;
  readonly lockMs: number;
  /** How long to wait when there is nothing; 0 answers at once. */
  readonly waitMs: number;
  /** Ends the wait early, with nothing claimed. */
  readonly signal?: AbortSignal;
  /** Only instances of these; absent: of any. */
  readonly runnable?: readonly Runnable[];
  /** An instance that was held back by another build is handed out at once, whatever its delay. */
  readonly buildId?: string;
  /** At most this many messages of an instance come in one claim. Default 1,000. */
  readonly maxMessages?: number;
}

/** A message with the key by which its claim's ack deletes it. */
export interface FetchedMessage extends StoredMessage {
  readonly messageKey: number;
}

/** One claimed instance with its visible messages. */
export interface OrchestrationItem {
  /** The store's own key of this incarnation; opaque, hand it back. */
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly incarnation: string;
  readonly executionId: number;
  readonly name: string;
  readonly version: string | null;
  /** Who waits for it, from its row, so that the parent is told even when the history cannot be read. */
  readonly parent: ParentRef | null;
  readonly lockToken: string;
  /** How often it was claimed since its last committed turn, this time included. */
  readonly claims: number;
  /** The id of the last committed turn; `null` before the first turn of an execution. */
  readonly lastTurn: string | null;
  /** The number of events in the current execution's history. */
  readonly historyLength: number;
  /** The store's clock at the claim. */
  readonly nowMs: number;
  readonly messages: readonly FetchedMessage[];
}

/** Which part of which history to read. */
export interface ReadHistoryParams {
  readonly instanceKey: number;
  readonly executionId: number;
  /** Only events with a greater id. */
  readonly after: number;
  /** At most this many. */
  readonly limit?: number;
}

/** A claimed instance together with the turn to commit for it. */
export interface OrchestrationAck {
  readonly lockToken: string;
  readonly messageKeys: readonly number[];
  readonly turn: Turn;
}

/** Why an instance is held back: visible to operators, ended by the next good turn. */
export interface Blocked {
  readonly reason: string;
  readonly buildId: string;
}

/** A claim on an instance that is given up without a turn. */
export interface OrchestrationAbandon {
  readonly lockToken: string;
  readonly delayMs: number;
  /** The claim does not count: a shutdown or a hold-back is not the item's fault. */
  readonly giveBackClaim: boolean;
  /** Also when the lease has expired, unless the instance was claimed again since. */
  readonly evenIfExpired?: boolean;
  readonly blocked?: Blocked;
}

/** An instance that no claim holds, and that is to be held back as it stands after a turn. */
export interface InstanceHold {
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
   * Locks up to `max` instances that have visible messages and that this worker can run.
   *
   * A provider must:
   * - claim only unlocked instances, or those whose lock has expired; a lock is held until just before its end
   *   (lock/a-claimed-instance-is-exclusive, lock/ends-at-its-moment,
   *   lock/an-expired-instance-is-handed-out-again, lock/concurrent-fetchers-share-out-instances,
   *   order/a-max-of-zero-claims-nothing, shared/claims-exclude-each-other)
   * - hand out the instances whose messages became visible first, first
   *   (order/the-instance-that-waits-longest-is-first, order/max-leaves-the-rest-for-the-next)
   * - give each claim a fresh token (fence/a-token-is-fresh-for-every-claim)
   * - count the claim, and report the count, the store's clock, the last turn and the length of the history
   *   (claims/count-from-one, claims/belong-to-one-instance, claims/of-work-and-instances-are-apart,
   *   create/enqueues-the-start-with-the-row, ack/records-the-turn-as-the-last)
   * - return all visible messages of a claimed instance in the order they became visible, those of one moment
   *   in the order they were enqueued, up to `maxMessages` (order/messages-come-in-the-order-of-their-arrival,
   *   order/a-due-timer-takes-its-place-among-messages, order/an-instance-comes-once-with-all-its-messages,
   *   order/max-messages-bounds-a-claim, order/a-thousand-messages-come-unless-told-otherwise,
   *   message/comes-as-it-was-enqueued)
   * - bring the start message with the first claim of an execution, also where a clock that was set back has put
   *   others before it (order/the-start-comes-though-the-clock-was-set-back)
   * - hide messages that are not yet visible (timer/is-hidden-until-due,
   *   timer/does-not-come-with-earlier-messages)
   * - claim only names and versions in `runnable`, compared exactly, and let the others wait without standing
   *   in the way (filter/claims-only-runnable-names, filter/claims-only-runnable-versions,
   *   filter/an-unpicked-version-needs-its-own-entry, filter/nothing-runnable-claims-nothing,
   *   filter/others-do-not-stand-in-the-way, filter/names-are-exact)
   * - hand out an item at its third claim or later alone, after the others, but not put it off for ever
   *   (claims/the-third-comes-alone, claims/two-suspects-come-one-by-one,
   *   claims/a-suspect-is-not-put-off-for-ever, blocked/a-suspect-comes-alone-to-another-build-too)
   * - hand out an instance held back by another build at once, and one held back by this build after its delay
   *   (blocked/comes-to-another-build-at-once, blocked/waits-its-delay-for-the-same-build,
   *   blocked/a-plain-delay-holds-for-every-build)
   * - never hand out an instance without a visible message, or one that is over
   *   (order/an-instance-without-messages-is-not-claimed, order/an-instance-that-is-over-is-not-claimed)
   * - hand out messages that it cannot make sense of as they are, and their neighbours untouched
   *   (data/messages-come-back-as-they-are, data/corrupt-messages-harm-no-neighbour)
   * - wait up to `waitMs` for work that this worker can run, answer as soon as there is some, and stop when the
   *   signal aborts (wait/zero-answers-at-once, wait/answers-at-once-when-there-is-work,
   *   wait/a-new-instance-ends-it, wait/a-message-ends-it, wait/a-completion-ends-it, wait/a-due-timer-ends-it,
   *   wait/a-timer-set-meanwhile-ends-it, wait/an-expired-lock-ends-it, wait/handed-back-work-ends-it,
   *   wait/ends-when-the-time-is-up, wait/ends-when-the-signal-aborts, wait/an-aborted-signal-does-not-wait,
   *   wait/what-it-cannot-run-does-not-end-it, wait/one-item-goes-to-one-waiter,
   *   wait/what-a-turn-sends-ends-it)
   */
  fetchOrchestrationItems(
    params: FetchOrchestrationItemsParams,
  ): Promise<readonly OrchestrationItem[]>;

  /**
   * Reads the events after a point, for several instances at once.
   *
   * A provider must, per instance:
   * - return the events of that execution alone, in order, at most `limit`
   *   (read/histories-of-several-instances, continue/keeps-histories-apart)
   * - return none for a missing one (read/history-of-nobody-is-empty)
   * - return events that it cannot make sense of as they are (data/events-come-back-as-they-are,
   *   data/corrupt-events-harm-no-neighbour)
   */
  readHistory(params: readonly ReadHistoryParams[]): Promise<readonly (readonly StoredEvent[])[]>;

  /**
   * Commits turns, each on its own: one transaction per item, or one for all with each item undone alone.
   *
   * A provider must, per item:
   * - refuse a token that is unknown, expired or of a finished claim with `LOCK_LOST`, changing nothing
   *   (fence/an-unknown-token-cannot-ack, fence/an-expired-token-cannot-ack,
   *   fence/a-token-that-was-taken-over-cannot-ack, fence/a-token-acks-once,
   *   fence/an-abandoned-token-cannot-ack, atomic/one-of-two-acks-wins,
   *   atomic/one-token-commits-once-in-a-batch)
   * - commit everything that the turn decided, or nothing of it, which leaves the claim as it was
   *   (atomic/an-ack-commits-all-its-parts, atomic/a-refused-ack-leaves-nothing,
   *   atomic/a-refused-ack-keeps-the-claim, atomic/a-refused-name-can-be-used-later)
   * - delete exactly the messages named, and leave later arrivals, which make the instance visible again
   *   (ack/deletes-the-named-messages, ack/leaves-later-arrivals, ack/spares-messages-of-others,
   *   batch/a-message-between-acks-of-one-batch-arrives)
   * - append the events at `firstEventId`, refusing ids that exist or that leave a gap
   *   (ack/appends-events-in-order, ack/without-events-is-a-turn, atomic/event-ids-that-exist-are-refused,
   *   atomic/gaps-in-event-ids-are-refused, data/unreadable-history-can-be-continued)
   * - insert the work items, refusing a second one for an operation (atomic/an-operation-has-one-work-item,
   *   order/a-work-item-comes-as-it-was-scheduled)
   * - claim for the caller the work items whose `claimMs` says so, as a fetch would, and report their tokens
   *   (claim-at-insert/reports-what-it-claimed, claim-at-insert/holds-for-its-lease,
   *   claim-at-insert/is-a-claim-like-any-other, claim-at-insert/a-refused-ack-claims-nothing)
   * - then apply `activityCancels`, of this execution alone: remove the unclaimed with an `activityCanceled` message
   *   for each, flag the claimed, shielded or not, and touch no outcome that is queued; the first reason stays,
   *   and the number of round trips does not grow with the list (cancel/unclaimed-work-is-removed,
   *   cancel/claimed-work-is-flagged, cancel/scheduled-in-the-same-turn-never-starts,
   *   cancel/between-attempts-is-removed, cancel/a-queued-completion-stays, cancel/the-first-request-is-kept,
   *   cancel/of-nothing-is-no-error, cancel/an-expired-claim-is-none, cancel/tells-its-trigger,
   *   cancel/twice-in-a-turn-is-once, cancel/is-undone-with-its-turn, cancel/reaches-shielded-work,
   *   cancel/belongs-to-its-execution, cancel/a-settled-item-cannot-be-cancelled,
   *   cancel/a-removed-item-keeps-its-first-reason, cancel/by-a-turn-that-settles-others, large/cancels)
   * - leave items that were scheduled as `abandon`, and record requests past the point of no return without
   *   delivering them (cancel/spares-abandoned-work, no-return/later-requests-are-not-delivered)
   * - then do to each of `childCancels` what `requestCancel` does, if it is a child of this execution
   *   (child-cancel/by-a-turn-asks-the-child, child-cancel/of-a-pending-child-tells-the-parent,
   *   child-cancel/spares-strangers, child-cancel/is-undone-with-its-turn,
   *   child-cancel/of-an-execution-spares-the-next)
   * - when the instance was asked to stop meanwhile: start nothing that the turn schedules outside a shield and
   *   not as `abandon`, but tell the instance so; keep it `canceling`, unless the turn ends it
   *   (under-way/its-work-never-starts, under-way/shielded-and-abandoned-work-starts,
   *   under-way/its-children-never-start, under-way/shielded-and-abandoned-children-start,
   *   under-way/does-not-lower-the-status, under-way/its-end-stands,
   *   under-way/the-next-execution-is-canceling-too)
   * - insert timers that become visible at their time, or after their delay from the commit on
   *   (timer/a-delay-counts-from-the-commit, timer/in-the-past-fires-at-once,
   *   timer/becoming-due-during-a-claim-waits-for-the-next, timer/fires-again-until-acked)
   * - then remove withdrawn timers, also those that are due, and nothing else
   *   (timer/that-is-withdrawn-never-fires, timer/that-is-due-can-still-be-withdrawn,
   *   timer/withdrawn-in-its-own-turn-never-fires, timer/a-withdrawal-spares-other-messages)
   * - insert children with their start messages; an id that is taken sends `ifTaken` to the parent instead. With
   *   `ifStarted`, send that once the instance exists; the id is then taken only by another kind, name or input hash
   *   (child/is-created-with-its-start, child/of-a-later-execution-knows-that-execution,
   *   child/a-detached-one-has-no-parent, child/a-taken-id-is-told-to-the-parent,
   *   child/the-id-of-a-finished-instance-is-taken, child/its-own-parent-has-taken-its-id,
   *   child/the-second-of-one-id-is-taken, child/two-parents-cannot-share-one,
   *   child/a-detached-start-is-confirmed, child/a-repeated-detached-start-is-confirmed,
   *   child/a-detached-id-of-another-start-is-taken, child/the-second-detached-start-of-one-id,
   *   child/a-taken-detached-id-is-silent, child/outlives-the-turn-that-ends-its-parent)
   * - then deliver messages, in order, to instances that are not over, and drop the others
   *   (message/of-a-turn-is-delivered-in-order, message/of-a-turn-to-itself-brings-the-next-turn,
   *   message/of-a-turn-to-nobody-is-dropped, message/to-a-new-child-follows-its-start)
   * - set status, output, custom status, version, `lastTurn`, and the terminal time that fits the status
   *   (ack/makes-an-instance-running, ack/completes-an-instance, ack/fails-an-instance,
   *   ack/sets-keeps-and-clears-the-custom-status)
   * - count how often the custom status was set, by the `customStatusSet` events of the turn
   *   (ack/counts-the-versions-of-the-custom-status)
   * - on continue-as-new keep the finished execution, begin the next with its start message and an empty
   *   history, and stay `running` (continue/begins-the-next-execution, continue/keeps-the-finished-execution,
   *   continue/many-in-a-row, continue/an-unpicked-version-can-be-picked-anew)
   * - carry messages that belong to no execution into the next, behind its start; end the timers, completions
   *   and work items of the old one (continue/carries-waiting-messages,
   *   continue/queued-completions-of-the-old-execution-are-dropped, continue/ends-outstanding-work,
   *   continue/old-timers-never-fire, continue/operations-count-anew)
   * - on a terminal outcome drop the instance's remaining messages, timers and unclaimed work items, and flag
   *   claimed ones (terminal/drops-waiting-messages, terminal/drops-timers, terminal/removes-unclaimed-work,
   *   terminal/flags-claimed-work)
   * - then ask the live children of the execution to stop, at every end and on continue-as-new, except those
   *   started as `abandon` (child-cancel/by-the-end-of-the-parent, child-cancel/of-the-last-turn,
   *   child-cancel/by-continue-as-new)
   * - on a `canceled` outcome keep the instance `canceling`, without turns or messages, while an item that is not
   *   `abandon` is left; settling the last one makes it `canceled`, tells its parent, and is its end
   *   (canceled/ends-at-once-when-nothing-runs, canceled/waits-for-what-runs, canceled/the-last-one-ends-it,
   *   canceled/a-lost-worker-does-not-hold-it, canceled/does-not-wait-for-abandoned-work,
   *   canceled/shielded-work-is-stopped-by-the-end, canceled/waits-for-what-cannot-be-stopped,
   *   canceled/tells-its-parent-at-its-end, canceled/without-a-request-names-its-own, canceled/can-be-listed)
   * - never change a terminal state again (terminal/never-changes-again,
   *   fence/a-late-turn-cannot-reopen-an-instance)
   * - reset the claim count and the hold-back, and release the lock (lock/an-ack-releases-the-instance,
   *   claims/are-reset-by-a-turn, claims/are-reset-by-a-turn-that-leaves-messages,
   *   blocked/is-cleared-by-a-good-turn)
   * - never insert the instance itself, so that nothing deleted comes back
   *   (fence/a-refused-ack-inserts-no-instance)
   * - keep one bad item from spoiling its neighbours (batch/a-lost-ack-spares-its-neighbours,
   *   batch/a-bad-turn-spares-its-neighbours, batch/calls-at-once-do-not-spoil-each-other)
   */
  ackOrchestrationItems(acks: readonly OrchestrationAck[]): Promise<readonly CommitResult[]>;

  /**
   * Releases claims without a turn.
   *
   * A provider must, per item:
   * - make the instance visible again after `delayMs`, with all its messages; those that arrive meanwhile do
   *   not shorten it (abandon/hands-the-instance-back-at-once, abandon/waits-its-delay,
   *   abandon/a-delay-is-not-a-lock)
   * - take the claim back from the count when asked to, never below zero
   *   (claims/an-abandoned-claim-counts-unless-given-back, blocked/counts-no-claim)
   * - record why the instance is held back, when it is, and since when: the newest reason, the first time
   *   (blocked/is-visible-on-the-record, blocked/names-the-newest-reason-since-the-first,
   *   blocked/still-takes-messages)
   * - answer `false` for a token that is not held, changing nothing (abandon/needs-a-held-claim,
   *   batch/abandons-are-answered-each)
   * - with `evenIfExpired` do the same for the last token of an instance after its lease
   *   (abandon/an-expired-claim-can-be-given-back)
   */
  abandonOrchestrationItems(abandons: readonly OrchestrationAbandon[]): Promise<readonly boolean[]>;

  /**
   * Holds back instances that no claim holds: a turn that runs in memory has blocked its worker.
   *
   * A provider must, per instance:
   * - hold it back as an abandon with `blocked` does; what waits for it and what arrives later waits for the delay, or
   *   for another build (hold/keeps-what-waits-and-what-comes, hold/is-ended-by-the-next-turn)
   * - answer `false`, changing nothing, unless it is live in this incarnation and execution, `lastTurn` is its last turn,
   *   and no claim holds it (hold/needs-a-free-instance-as-it-stood)
   */
  holdInstances(holds: readonly InstanceHold[]): Promise<readonly boolean[]>;

  /**
   * Extends locks.
   *
   * A provider must, per token:
   * - extend the lock by `extendMs` from now (lock/renewal-extends-from-now)
   * - answer `false` for a token that is not held or has expired (lock/an-expired-claim-cannot-be-renewed,
   *   lock/a-renewal-answers-each-token)
   */
  renewOrchestrationLocks(
    lockTokens: readonly string[],
    extendMs: number,
  ): Promise<readonly boolean[]>;
}
