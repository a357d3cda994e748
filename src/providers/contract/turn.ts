import type { CancellationType } from '../../model/cancel.ts';
import type { CancelTrigger } from '../../model/failures/errors.ts';
import type { StoredEvent } from '../../model/event.ts';
import type { StoredMessage } from '../../model/message.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { TerminalStatus } from '../../model/status.ts';

/** An activity to be run once this turn has committed. */
export interface NewWorkItem {
  /** The operation that scheduled it: unique within its execution. */
  readonly operation: number;
  readonly name: string;
  readonly payload: Payload | null;
  /** Opaque to the store: what the worker needs besides the input. */
  readonly options: string | null;
  /** What a cancel does to it: `abandon` is never flagged. */
  readonly cancellation: CancellationType;
  /** Scheduled inside a shield: a cancel of the instance leaves it alone. */
  readonly shielded: boolean;
  /** Higher first, then first in; a whole number from -100 to 100. Absent: 0. */
  readonly priority?: number;
  /** Insert it already claimed, with this lease, for the process that acks: fast path 1. */
  readonly claimMs?: number;
  /** With `claimMs`: who has claimed it, for operators. */
  readonly claimedBy?: string;
}

/** A timer: its message becomes visible at `fireAt`, or `delayMs` after the commit. */
export interface NewTimer {
  readonly operation: number;
  /** By the clock of the turn. */
  readonly fireAt: number;
  /**
   * How long to wait from the commit on, by the store's clock. Present where the turn did not run at a time that the store
   * gave: `fireAt` is then only what the history records.
   */
  readonly delayMs?: number;
}

/** A message to another instance, dropped with a count if that does not exist or is over. */
export interface OutgoingMessage {
  readonly instanceId: string;
  readonly message: StoredMessage;
}

/** An instance that a turn starts: a child (it has a parent operation) or a detached one. */
export interface NewChild {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly name: string;
  readonly version: string | null;
  readonly inputHash: string;
  /** The start message, encoded. */
  readonly start: StoredMessage;
  /** The operation of the parent that waits; `null` for a detached one. */
  readonly parentOperation: number | null;
  /** What the end of the parent does to it. */
  readonly cancellation: CancellationType;
  /** Started inside a shield: a cancel of the parent that this turn has not seen leaves it alone. */
  readonly shielded?: boolean;
  /**
   * Sent to the starting instance once this one exists. With it, the id counts as taken only if its instance is not an
   * orchestration with the same name and input hash. For a detached one.
   */
  readonly ifStarted?: StoredMessage;
  /** Sent to the starting instance when the id is taken, so that it never waits forever; `null`: send nothing. */
  readonly ifTaken: StoredMessage | null;
}

/** An activity that the turn no longer needs. */
export interface ActivityCancel {
  readonly operation: number;
  readonly reason: string;
  readonly trigger: CancelTrigger;
}

/** A child that is asked to stop. */
export interface ChildCancel {
  readonly instanceId: string;
  readonly reason: string;
}

/** Where the turn leaves its instance. */
export type TurnOutcome =
  | { readonly status: 'running' }
  | { readonly status: 'completed'; readonly payload: Payload | null }
  | { readonly status: 'failed'; readonly failure: string }
  | { readonly status: 'canceled'; readonly reason: string; readonly cleanupSkipped: boolean }
  | {
      /** The next execution begins: `start` becomes its first message. */
      readonly status: 'continuedAsNew';
      readonly version: string | null;
      readonly start: StoredMessage;
    };

/** Everything that one turn decided, to be committed in one transaction or not at all. */
export interface Turn {
  /** Unique; becomes the instance's `lastTurn`, by which a warm instance or an unknown commit is recognised. */
  readonly turnId: string;
  /** The version that the instance runs on from now on. */
  readonly version: string;
  readonly firstEventId: number;
  readonly events: readonly StoredEvent[];
  readonly workItems: readonly NewWorkItem[];
  readonly timers: readonly NewTimer[];
  readonly children: readonly NewChild[];
  readonly messages: readonly OutgoingMessage[];
  readonly activityCancels: readonly ActivityCancel[];
  readonly childCancels: readonly ChildCancel[];
  /** How long the children that this turn, or the end it brings, asks to stop may clean up. */
  readonly cleanupMs: number;
  /** Operations of timers whose messages must never become visible. */
  readonly timerWithdrawals: readonly number[];
  /** Absent: unchanged. */
  readonly customStatus?: Payload | null;
  /** External events that the code has been given and not yet asked for. Absent: unchanged. */
  readonly bufferedEvents?: number;
  readonly outcome: TurnOutcome;
}

/** The lease of a work item that an ack inserted already claimed. */
export interface ClaimedAtInsert {
  readonly operation: number;
  readonly lockToken: string;
}

/** What became of one item of a batch: committed, or refused with nothing changed. */
export type CommitResult =
  | {
      readonly ok: true;
      readonly claimed: readonly ClaimedAtInsert[];
      /** How the task run ended that this ack finalised: `canceled` where its outcome came too late. */
      readonly ended?: TerminalStatus;
    }
  | { readonly ok: false; readonly error: Error };
