import type { CancelTrigger } from '../model/errors.ts';
import type { Payload } from '../model/payload.ts';
import type { CommitResult, Turn } from './turn.ts';

export interface FetchWorkItemsParams {
  readonly max: number;
  readonly lockMs: number;
  readonly waitMs: number;
  readonly signal?: AbortSignal;
  /** Only activities with these names; absent: any. */
  readonly names?: readonly string[];
}

/** A durable wish that an item stop. */
export interface CancelInfo {
  readonly reason: string;
  readonly requestedAt: number;
  readonly trigger: CancelTrigger;
}

/** One claimed activity. */
export interface WorkItem {
  readonly lockToken: string;
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly incarnation: string;
  readonly executionId: number;
  readonly operation: number;
  /** The name of the activity. */
  readonly name: string;
  /** The name of the orchestration that scheduled it. */
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
}

export type WorkOutcome =
  | { readonly kind: 'completed'; readonly payload: Payload | null }
  /** `failure` is a `Failure` as JSON text. */
  | { readonly kind: 'failed'; readonly failure: string }
  | { readonly kind: 'canceled' };

export interface WorkItemAck {
  readonly lockToken: string;
  readonly outcome: WorkOutcome;
}

/** Settled activities together with the turn that their completions led to: fast path 2. */
export interface TurnAck {
  readonly instanceKey: number;
  readonly incarnation: string;
  readonly executionId: number;
  /** The turn after which the warm instance stood when it ran this one. */
  readonly lastTurn: string;
  /** The items whose outcomes the turn has already applied. */
  readonly lockTokens: readonly string[];
  readonly turn: Turn;
}

export interface WorkItemAbandon {
  readonly lockToken: string;
  readonly delayMs: number;
  readonly giveBackClaim: boolean;
}

export interface WorkItemRetry {
  readonly lockToken: string;
  readonly delayMs: number;
  /** The `Failure` of this attempt as JSON text, kept for operators. */
  readonly failure: string;
}

export interface WorkItemRenewal {
  readonly lockToken: string;
  /** Absent: unchanged. */
  readonly heartbeat?: Payload | null;
}

/** What a renewal found: the lease extended (with a cancel request, if there is one), or lost. */
export type RenewResult =
  { readonly held: true; readonly cancel: CancelInfo | null } | { readonly held: false };

export interface WorkQueue {
  /**
   * Locks up to `max` work items.
   *
   * A provider must:
   * - claim only visible items that are unlocked, or whose lock has expired
   * - hand out the item that became visible first, first
   * - give each claim a fresh token, count the claim, and report claims, failures, heartbeat and the store's clock
   * - claim only activities in `names`, but anyone may claim a flagged item in order to end it
   * - report a cancel request with the item
   * - hand out an item at its third claim or later alone, after the others
   * - wait up to `waitMs` for work, answer as soon as there is some, and stop when the signal aborts
   */
  fetchWorkItems(params: FetchWorkItemsParams): Promise<readonly WorkItem[]>;

  /**
   * Settles items.
   *
   * A provider must, per item:
   * - answer `LOCK_LOST` for a token that is unknown, expired or of a finished claim, changing nothing
   * - delete the item and enqueue its outcome as a message, together
   * - enqueue nothing for an execution that is over or superseded
   * - keep one bad item from spoiling its neighbours
   */
  ackWorkItems(acks: readonly WorkItemAck[]): Promise<readonly CommitResult[]>;

  /**
   * Settles items and commits the turn that their outcomes led to, in one transaction per entry.
   *
   * A provider must refuse an entry with `LOCK_LOST`, changing nothing, unless
   * - every token is held and unexpired, belongs to this instance and execution, and is not flagged
   * - the instance is running this incarnation and execution, and `lastTurn` is its last committed turn
   * - no other claim holds the instance
   * - the instance has no visible message
   *
   * and otherwise do what `ackOrchestrationItems` does, and delete the items without enqueueing messages.
   */
  ackTurns(acks: readonly TurnAck[]): Promise<readonly CommitResult[]>;

  /**
   * Extends locks by `extendMs` from now, and stores heartbeats.
   *
   * A provider must, per item:
   * - extend the lock even when a cancel is requested, and report the request
   * - answer `held: false` for a token that is unknown or expired, changing nothing
   */
  renewWorkItemLocks(
    renewals: readonly WorkItemRenewal[],
    extendMs: number,
  ): Promise<readonly RenewResult[]>;

  /** Hands items back, visible after `delayMs`, optionally without counting the claim; `false` if not held. */
  abandonWorkItems(abandons: readonly WorkItemAbandon[]): Promise<readonly boolean[]>;

  /** Hands items back after a failed attempt: counts one failure, resets the claims; `false` if not held. */
  retryWorkItems(retries: readonly WorkItemRetry[]): Promise<readonly boolean[]>;
}
