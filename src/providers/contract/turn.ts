import type { CancellationType } from '../../model/cancel.ts';
import type { CancelTrigger } from '../../model/failures/errors.ts';
import type { StoredEvent } from '../../model/event.ts';
import type { StoredMessage } from '../../model/message.ts';
import type { ConflictPlan } from '../../model/admission-options.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { RecordedTagChanges, Tags } from '../../model/values/tags.ts';
import type { TerminalStatus } from '../../model/status.ts';
import type { NewMessage } from './instances.ts';
import type { Lane } from './limits.ts';
import type { AwakeableChanges, UpdateReply } from './updates.ts';

/** An activity to run after this turn has committed. */
export interface NewWorkItem {
  /** The operation that scheduled it. Unique within its execution. */
  readonly operation: number;
  readonly name: string;
  readonly payload: Payload | null;
  /** Opaque to the store: what the worker needs in addition to the input. */
  readonly options: string | null;
  /** What a cancel does to it. `abandon` is never flagged. */
  readonly cancellation: CancellationType;
  /** Scheduled inside a shield: a cancel of the instance does not reach it. */
  readonly shielded: boolean;
  /** Higher first, then first in. An integer from -100 to 100. Default: 0. */
  readonly priority?: number;
  /** Its key and weight. See `NewTask.lane`. */
  readonly lane?: Lane;
  /**
   * Insert it already claimed with this lease, for the process that acks. Saves the fetch (fast path). Ignored for an
   * activity that is limited or paused: the ack does not list it as claimed.
   */
  readonly claimMs?: number;
  /** With `claimMs`: the name of the worker, for operators. */
  readonly claimedBy?: string;
}

/** A timer. Its message becomes visible at `fireAt`, or `delayMs` after the commit. */
export interface NewTimer {
  readonly operation: number;
  /** By the clock of the turn. */
  readonly fireAt: number;
  /**
   * Delay from the commit, by the store's clock. Set if the turn did not run at a time of the store.
   * `fireAt` is then only the time in the history.
   */
  readonly delayMs?: number;
}

/** A message to another instance. Dropped if that instance is missing or has ended. */
export interface OutgoingMessage {
  readonly instanceId: string;
  readonly message: StoredMessage;
}

/** An instance that a turn starts: a child (with a parent operation), or a detached one. */
export interface NewChild {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly name: string;
  readonly version: string | null;
  readonly inputHash: string;
  /** The start message, encoded. */
  readonly start: StoredMessage;
  /** The operation of the parent that waits. `null` for a detached instance. */
  readonly parentOperation: number | null;
  /** What the end of the parent does to it. */
  readonly cancellation: CancellationType;
  /** Started inside a shield: a cancel of the parent that this turn has not seen does not reach it. */
  readonly shielded?: boolean;
  /**
   * For a detached instance: sent to the starting instance once this one exists.
   * The id then counts as taken only if it belongs to another kind, name or input hash.
   */
  readonly ifStarted?: StoredMessage;
  /** Sent to the starting instance if the id is taken, so that it does not wait forever. `null`: send nothing. */
  readonly ifTaken: StoredMessage | null;
  /**
   * Enqueued with the start. For a detached instance also at the live instance of this name that has the id: see
   * `NewInstance.event`. Never at an instance that the id of a child finds.
   */
  readonly event?: Omit<NewMessage, 'instanceId'>;
  /** With an `event`: sent to the starting instance instead of `ifStarted` if the event was rejected. */
  readonly ifRejected?: Readonly<Record<'over' | 'full', StoredMessage>>;
  /**
   * For a detached instance: see `NewInstance.onConflict`. For a child, `terminateExisting` replaces an earlier child of
   * the same parent, execution and name; every other instance keeps the id.
   */
  readonly onConflict?: ConflictPlan;
  readonly tags?: Tags;
  /** See `NewInstance.lane`. */
  readonly lane?: Lane;
  /** See `NewInstance.headers`. */
  readonly headers?: string;
  /** See `NewInstance.timeoutMs`. */
  readonly timeoutMs?: number;
  /** See `NewInstance.delayMs`. */
  readonly delayMs?: number;
  /** See `NewInstance.runAt`. */
  readonly runAt?: number;
}

/** An activity that the turn no longer needs. */
export interface ActivityCancel {
  readonly operation: number;
  readonly reason: string;
  readonly trigger: CancelTrigger;
}

/** A child to cancel. */
export interface ChildCancel {
  readonly instanceId: string;
  readonly reason: string;
}

/** A change of one key of an instance's state. `payload: null` deletes the key. */
export interface StateChange {
  readonly key: string;
  readonly payload: Payload | null;
}

/** The state of the instance after the turn. */
export type TurnOutcome =
  | { readonly status: 'running' }
  | { readonly status: 'completed'; readonly payload: Payload | null }
  | { readonly status: 'failed'; readonly failure: string }
  | { readonly status: 'canceled'; readonly reason: string; readonly cleanupSkipped: boolean }
  | {
      /** The next execution begins. `start` is its first message. */
      readonly status: 'continuedAsNew';
      readonly version: string | null;
      readonly start: StoredMessage;
    };

/** Chunks that the code of a turn emitted, in order. */
export interface EmittedChunks {
  readonly chunks: readonly Payload[];
  /** Opaque to the store. */
  readonly source: string;
  /** See `StreamRecord.maxBytes`. */
  readonly maxBytes: number;
}

/** Everything that one turn decided, committed in one transaction or not at all. */
export interface Turn {
  /** Unique. Becomes the instance's `lastTurn`, which identifies warm instances and unknown commits. */
  readonly turnId: string;
  /** The version that the instance runs from now on. */
  readonly version: string;
  readonly firstEventId: number;
  readonly events: readonly StoredEvent[];
  readonly workItems: readonly NewWorkItem[];
  readonly timers: readonly NewTimer[];
  readonly children: readonly NewChild[];
  readonly messages: readonly OutgoingMessage[];
  readonly activityCancels: readonly ActivityCancel[];
  readonly childCancels: readonly ChildCancel[];
  /** Clean-up limit of the children that this turn, or the end it brings, cancels. */
  readonly cleanupMs: number;
  /** Operations of timers whose messages must not become visible. */
  readonly timerWithdrawals: readonly number[];
  /** Absent: unchanged. */
  readonly customStatus?: Payload | null;
  /** Tags to merge; `null` removes one. Absent: unchanged. */
  readonly tags?: RecordedTagChanges;
  /** Chunks for the stream of the instance, or of its job. Absent: none. */
  readonly emitted?: EmittedChunks;
  /** Changes of the state, one per key, in order. Absent: unchanged. */
  readonly state?: readonly StateChange[];
  /** External events that the code has received and not yet consumed. Absent: unchanged. */
  readonly bufferedEvents?: number;
  /** Replies to updates, in order. Absent: none. */
  readonly updateReplies?: readonly UpdateReply[];
  /** Absent: unchanged. */
  readonly awakeables?: AwakeableChanges;
  readonly outcome: TurnOutcome;
}

/** The lease of a work item that was claimed on insert. */
export interface ClaimedAtInsert {
  readonly operation: number;
  readonly lockToken: string;
}

/** The result of one item of a batch: committed, or rejected with nothing changed. */
export type CommitResult =
  | {
      readonly ok: true;
      readonly claimed: readonly ClaimedAtInsert[];
      /** Whether the claim on the instance is kept, as the ack asked. */
      readonly kept?: true;
      /** With `kept`: the instance or its definition is paused, so no work should start. */
      readonly paused?: true;
      /** The status of a task run that this ack ended. `canceled` if its outcome came too late. */
      readonly ended?: TerminalStatus;
      /** Of a transaction with several acks: the result of each. */
      readonly items?: readonly CommitResult[];
    }
  | {
      readonly ok: false;
      readonly error: Error;
      /** Of a transaction with several acks: the result that each would have had. */
      readonly items?: readonly CommitResult[];
    };
