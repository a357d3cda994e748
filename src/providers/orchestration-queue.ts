import type { ParentRef, StoredEvent } from '../model/event.ts';
import type { StoredMessage } from '../model/message.ts';
import type { CommitResult, Turn } from './turn.ts';

/** A name and version that a worker can run; `version: null` stands for instances whose version is not yet picked. */
export interface Runnable {
  readonly name: string;
  readonly version: string | null;
}

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

export interface ReadHistoryParams {
  readonly instanceKey: number;
  readonly executionId: number;
  /** Only events with a greater id. */
  readonly after: number;
  /** At most this many. */
  readonly limit?: number;
}

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

export interface OrchestrationAbandon {
  readonly lockToken: string;
  readonly delayMs: number;
  /** The claim does not count: a shutdown or a hold-back is not the item's fault. */
  readonly giveBackClaim: boolean;
  readonly blocked?: Blocked;
}

export interface OrchestrationQueue {
  /**
   * Locks up to `max` instances that have visible messages and that this worker can run.
   *
   * A provider must:
   * - claim only unlocked instances, or those whose lock has expired
   * - hand out the instances whose messages became visible first, first
   * - give each claim a fresh token
   * - count the claim, and report the count and the store's clock
   * - return all visible messages of a claimed instance in the order they were enqueued, up to `maxMessages`
   * - hide messages that are not yet visible
   * - claim only names and versions in `runnable`
   * - hand out an item at its third claim or later alone, after the others
   * - hand out an instance held back by another build at once, and one held back by this build after its delay
   * - never hand out an instance without a visible message, or one that is over
   * - wait up to `waitMs` for work, answer as soon as there is some, and stop when the signal aborts
   */
  fetchOrchestrationItems(
    params: FetchOrchestrationItemsParams,
  ): Promise<readonly OrchestrationItem[]>;

  /** Reads the events after a point, in order, for several instances at once; a missing one has none. */
  readHistory(params: readonly ReadHistoryParams[]): Promise<readonly (readonly StoredEvent[])[]>;

  /**
   * Commits turns, each on its own: one transaction per item, or one for all with each item undone alone.
   *
   * A provider must, per item:
   * - refuse a token that is unknown, expired or of a finished claim with `LOCK_LOST`, changing nothing
   * - delete exactly the messages named, and leave later arrivals, which make the instance visible again
   * - append the events at `firstEventId`, refusing ids that exist
   * - insert the work items, claimed for the caller where `claimMs` says so, then apply `activityCancels`
   * - insert timers that become visible at their time, and remove withdrawn ones
   * - insert children with their start messages; an id that is taken sends `ifTaken` to the parent instead
   * - deliver messages to instances that are not over, and drop the others
   * - set status, output, custom status, version, `lastTurn`, and the terminal time that fits the status
   * - on continue-as-new keep the finished execution, begin the next with its start message and an empty history
   * - on a terminal outcome drop the instance's remaining messages, timers and unclaimed work items, and flag claimed ones
   * - reset the claim count and the hold-back, and release the lock
   * - never insert the instance itself, so that nothing deleted comes back
   * - keep one bad item from spoiling its neighbours
   */
  ackOrchestrationItems(acks: readonly OrchestrationAck[]): Promise<readonly CommitResult[]>;

  /**
   * Releases claims without a turn.
   *
   * A provider must, per item:
   * - make the instance visible again after `delayMs`, with all its messages
   * - take the claim back from the count when asked to, never below zero
   * - record why the instance is held back, when it is
   * - answer `false` for a token that is not held, changing nothing
   */
  abandonOrchestrationItems(abandons: readonly OrchestrationAbandon[]): Promise<readonly boolean[]>;

  /** Extends locks by `extendMs` from now; `false` for a token that is not held or has expired. */
  renewOrchestrationLocks(
    lockTokens: readonly string[],
    extendMs: number,
  ): Promise<readonly boolean[]>;
}
