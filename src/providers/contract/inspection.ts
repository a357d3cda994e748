import type { StoredEvent } from '../../model/event.ts';
import type { CancelTrigger } from '../../model/failures/errors.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { InstanceRecord } from './instances.ts';
import type { LimitHold } from './limits.ts';
import type { SessionState } from './sessions.ts';

/** Maximum length of heartbeats and failures that are read for pending work. */
export const maxShownLength = 65_536;

/** An activity or task run without an outcome. */
export interface PendingItem {
  readonly kind: 'activity' | 'task' | 'onFail';
  readonly executionId: number;
  readonly operation: number;
  readonly name: string;
  /** The options of the item. */
  readonly options: string | null;
  /** The number of failed attempts. */
  readonly failures: number;
  /** The maximum of attempts that the last retry stored. `null`: none, or no attempt has failed. */
  readonly maxAttempts: number | null;
  /** The last `Failure` as JSON text. Empty if it is longer than `maxShownLength`. */
  readonly lastFailure: string | null;
  /** The last heartbeat. `null` if it is longer than `maxShownLength`. */
  readonly heartbeat: Payload | null;
  /** When the last heartbeat was stored. */
  readonly heartbeatAt: number | null;
  /** When it can be claimed, unless a worker holds it. */
  readonly dueAt: number;
  /** The claim of the worker that holds it. */
  readonly held: {
    readonly worker: string | null;
    readonly claimedAt: number;
    readonly lockedUntil: number;
  } | null;
  /** The last claim, if its lease expired before an outcome. */
  readonly expired: { readonly worker: string | null; readonly at: number } | null;
  /** The key of its lane, empty for none. `null`: its definition is not limited. */
  readonly lane: string | null;
  /** Why an item of a lane that is due is not held. `null`: it is held, delayed or has no lane. */
  readonly limitHold: LimitHold | null;
  /** Whether it is past its point of no return: a cancel does not stop it. */
  readonly pointOfNoReturn: boolean;
  readonly cancel: { readonly reason: string; readonly trigger: CancelTrigger } | null;
}

/** Details of an instance that its record does not have. */
export interface InstanceDetails {
  /** The input of the current execution. */
  readonly input: Payload | null;
  readonly pending: readonly PendingItem[];
}

/** The state of the next turn of an instance. */
export interface TurnState {
  /** The store's clock. */
  readonly nowMs: number;
  /** The number of events in the current execution's history. */
  readonly historyLength: number;
  /** Whether its code has ended as canceled, and only running work keeps it from its end. */
  readonly isClosing: boolean;
  /** When a worker may claim it: a message is visible, its hold-back has ended, its lease has expired. `null`: no message. */
  readonly dueAt: number | null;
  /** Until when it is held back, after a claim that was released. */
  readonly heldUntil: number | null;
  /** The key under which it waits for a place to begin, empty for none. `null`: it does not wait for one. */
  readonly waitingKey: string | null;
  /** From when on any worker may end it, because its clean-up limit has expired. */
  readonly cleanupAt: number | null;
  /** Claims since the last committed turn. */
  readonly claims: number;
  /** The claim of the worker that runs its turn. */
  readonly held: {
    readonly worker: string | null;
    readonly claimedAt: number | null;
    readonly lockedUntil: number;
  } | null;
  /** The last claim, if its lease expired before a turn was committed. */
  readonly expired: { readonly worker: string | null; readonly at: number } | null;
  /** How the run is debounced, while it has not started. */
  readonly debounce: DebounceState | null;
  /** The job of this run, while its caller can take the reply. */
  readonly job: {
    readonly sessionId: string;
    readonly sessionState: SessionState;
    readonly expiresAt: number;
    readonly abandonedAt: number | null;
  } | null;
}

/** A debounced run that has not started. */
export interface DebounceState {
  readonly key: string;
  /** When it may start. */
  readonly startsAt: number;
  /** How often a later start has moved it. */
  readonly moves: number;
}

/** The maximum length of each failure and each task's options that `inspectInstances` reads. */
export const maxListedLength = 16_384;

/** Selects the instances to inspect, and how much of each. */
export interface InspectInstancesParams {
  readonly instanceIds: readonly string[];
  /** Maximum pending items per instance. */
  readonly maxPending: number;
  /** Maximum events per instance. */
  readonly maxEvents: number;
}

/** What a list needs to explain an instance. */
export interface InspectedInstance {
  /**
   * Without output, custom status and input. A failure longer than `maxListedLength` is empty text, and options of that
   * length are `null`.
   */
  readonly record: InstanceRecord;
  readonly turn: TurnState;
  /** Without heartbeats and failures. */
  readonly pending: readonly PendingItem[];
  /**
   * The last events of the current execution, the oldest first, without payloads. Only of an orchestration that is
   * idle: it has not ended, no worker runs it, no message is due and no work is pending.
   */
  readonly events: readonly StoredEvent[];
}

/** Reads for operators. */
export interface InspectionStore {
  /**
   * Reads the input of an instance and its work without an outcome.
   *
   * A provider must:
   * - return `undefined` for an unknown id (inspect/an-unknown-id-is-undefined)
   * - read the input of the current execution, started or not, and of a task run (inspect/shows-the-input)
   * - list work by execution and operation, at most `maxPending`: attempts, last failure, heartbeat, due time and
   *   holder (inspect/lists-pending-work, inspect/pending-work-is-bounded)
   * - return the maximum of attempts of the last retry (inspect/shows-the-limit-of-attempts)
   * - return when a heartbeat was stored, and whether the item is past its point of no return
   *   (inspect/dates-heartbeats, inspect/shows-the-point-of-no-return)
   * - list work with an expired lease as not held, due from the end of the lease, with its last worker
   *   (inspect/a-lapsed-claim-is-not-held)
   */
  inspectInstance(params: {
    readonly instanceId: string;
    readonly maxPending: number;
  }): Promise<InstanceDetails | undefined>;

  /**
   * Reads the state of an instance's next turn.
   *
   * A provider must:
   * - return `undefined` for an unknown id (inspect/an-unknown-id-is-undefined)
   * - return when the turn is due, and a hold-back (inspect/shows-when-a-turn-is-due)
   * - return the key under which it waits for a place to begin (begin/what-waits-is-shown)
   * - return the worker that holds it with the time of its claim, or the claim that expired
   *   (inspect/shows-who-runs-a-turn)
   * - return the clean-up limit, and whether only running work keeps it from its end (inspect/shows-a-canceled-end)
   * - return how often a debounced run was moved and when it starts, until a worker claims it
   *   (inspect/shows-a-debounced-run)
   * - return the session of a job, and since when the job is abandoned (inspect/shows-the-session-of-a-job)
   */
  inspectTurn(instanceId: string): Promise<TurnState | undefined>;

  /**
   * Reads many instances for a list, in one snapshot or with a constant number of statements.
   *
   * A provider must:
   * - return them in the order of the ids, with `undefined` for a missing one
   *   (inspect/many-come-in-the-order-asked)
   * - return the same record, turn and pending items as the single reads, without payloads
   *   (inspect/many-equal-the-single-reads)
   * - return the last events of idle orchestrations only, at most `maxEvents` (inspect/idle-ones-have-their-last-events)
   */
  inspectInstances(
    params: InspectInstancesParams,
  ): Promise<readonly (InspectedInstance | undefined)[]>;

  /**
   * Finds the stored texts of an instance that contain a text: its payloads, failures and messages, in one snapshot.
   *
   * A provider must:
   * - search the row, the histories, the failures of executions, the messages, the work, the replies to updates and the state
   *   of the instance, and return each text as it is stored (inspect/finds-stored-texts)
   * - compare literally and by case, and return nothing of other instances and pruned executions
   *   (inspect/finds-texts-of-one-instance)
   */
  findStoredTexts(params: {
    readonly instanceId: string;
    readonly text: string;
  }): Promise<readonly string[]>;
}
