import type { Failure } from './failure.ts';

/** Every code that an error of Perdure can carry. */
export type ErrorCode =
  // Programmer errors: the call or the code has to change.
  | 'INVALID_INPUT'
  | 'INVALID_NAME'
  | 'INVALID_ID'
  | 'INVALID_DURATION'
  | 'INVALID_OPTION'
  | 'INVALID_FLOW'
  | 'NOT_SERIALIZABLE'
  | 'PAYLOAD_TOO_LARGE'
  | 'UNREGISTERED'
  | 'ALREADY_REGISTERED'
  | 'INSTANCE_ALREADY_EXISTS'
  | 'INSTANCE_NOT_FOUND'
  | 'INSTANCE_OVER'
  | 'INSTANCE_STILL_RUNNING'
  | 'CANNOT_DELETE_SUB_ORCHESTRATION'
  | 'NONDETERMINISM'
  | 'STRAY_AWAIT'
  | 'CANCEL_IGNORED'
  | 'NEVER_AWAITED'
  | 'FORBIDDEN_IN_ORCHESTRATION'
  | 'UNKNOWN_SIGNAL'
  | 'SIGNAL_ALREADY_DELIVERED'
  | 'CLOSED'
  | 'OUTSIDE_HANDLER'
  | 'INVALID_SCHEDULE'
  | 'SCHEDULE_NOT_FOUND'
  | 'SESSION_CLOSED'
  | 'SESSION_NOT_FOUND'
  | 'AMBIGUOUS_SESSION'
  | 'SESSION_DOWNGRADE'
  | 'JOB_CLOSED'
  | 'STREAM_TAKEN'
  // Outcomes of user code.
  | 'ACTIVITY_FAILED'
  | 'CHILD_FAILED'
  | 'INSTANCE_FAILED'
  | 'INSTANCE_TERMINATED'
  | 'STEP_FAILED'
  | 'CONDITION_FAILED'
  | 'NO_OUTPUT'
  | 'POISON'
  | 'EVENT_LOOP_BLOCKED'
  | 'TIMEOUT'
  | 'EVENT_BUFFER_FULL'
  | 'TASK_SKIPPED'
  | 'TASK_EXPIRED'
  // Cancellation.
  | 'OPERATION_CANCELED'
  // Refusals of a server.
  | 'INVALID_REQUEST'
  | 'UNAUTHENTICATED'
  | 'FORBIDDEN'
  | 'NO_SUCH_ROUTE'
  | 'METHOD_NOT_ALLOWED'
  | 'NOT_JSON'
  | 'BODY_TOO_LARGE'
  | 'WRONG_HOST'
  | 'RATE_LIMITED'
  | 'UNAVAILABLE'
  | 'INTERNAL'
  // Platform.
  | 'LOCK_LOST'
  | 'PROVIDER'
  | 'UNDECODABLE'
  | 'STORE_TOO_NEW'
  | 'STORE_INCOMPATIBLE'
  | 'STORE_DAMAGED'
  | 'STORE_REPLACED';

// Symbol.for lets two copies of the package recognise each other's errors, where instanceof cannot.
const brand = Symbol.for('perdure.error');

/** The base of every error that Perdure throws; `code` tells which one, the message says what to do next. */
export class PerdureError extends Error {
  readonly code: ErrorCode;
  /** Set where `ctx.select` rejects with this error: the key, or the index, of the member that failed. */
  declare readonly selectKey?: string | number;

  constructor(code: ErrorCode, message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
    Object.defineProperty(this, brand, { value: true });
  }

  /** Recognises an error of Perdure, also one from another copy of the package. */
  static is(error: unknown): error is PerdureError {
    try {
      return typeof error === 'object' && error !== null && brand in error;
    } catch {
      // A thrown proxy may refuse every question; it is none of ours.
      return false;
    }
  }
}

/** Recognises an error of Perdure, optionally with one code; works across copies of the package. */
export function isPerdureError(error: unknown, code?: ErrorCode): error is PerdureError {
  return PerdureError.is(error) && (code === undefined || error.code === code);
}

/** Codes of a store that must not be used as it is. */
type StoreRefusal = Extract<ErrorCode, `STORE_${string}`>;

/** A store's refusal or trouble: which operation, and whether trying again can help. */
export class ProviderError extends PerdureError {
  readonly operation: string;
  readonly retryable: boolean;
  /** Whether the operation may have happened all the same: read before you repeat what is not fenced. */
  readonly outcomeUnknown: boolean;

  constructor(options: {
    readonly operation: string;
    readonly message: string;
    readonly retryable: boolean;
    readonly outcomeUnknown?: boolean;
    readonly code?: 'PROVIDER' | 'UNDECODABLE' | 'LOCK_LOST' | StoreRefusal;
    readonly cause?: unknown;
  }) {
    super(
      options.code ?? 'PROVIDER',
      options.message,
      options.cause === undefined ? undefined : { cause: options.cause },
    );
    this.operation = options.operation;
    this.retryable = options.retryable;
    this.outcomeUnknown = options.outcomeUnknown ?? false;
  }
}

/** The lease of a claim is over or another claim holds it: nothing was changed. */
export class LockLostError extends ProviderError {
  constructor(operation: string) {
    super({
      operation,
      message: `${operation}: the lock is no longer held, so nothing was changed. The work will be done by whoever holds it now.`,
      retryable: false,
      code: 'LOCK_LOST',
    });
  }
}

/**
 * Code and history disagree: the orchestration was changed under a live instance. Code that throws it says so of
 * itself: the turn is not taken, and the instance is held back.
 */
export class NondeterminismError extends PerdureError {
  /** Where the two part: the id of the recorded event, or of the one after the last. */
  readonly eventId: number;
  /** What history records there, without payloads: `activity "chargeCard"`. Absent: code reported the error itself. */
  readonly recorded?: string;
  /** What the code did instead, without payloads: `timer`. */
  readonly issued?: string;

  constructor(
    message: string,
    eventId: number,
    difference?: { readonly recorded: string; readonly issued: string },
  ) {
    super('NONDETERMINISM', message);
    this.eventId = eventId;
    if (difference === undefined) return;
    this.recorded = difference.recorded;
    this.issued = difference.issued;
  }
}

/** Why a running handler or a pending operation was told to stop. */
export type CancelTrigger =
  'cancel' | 'timeout' | 'race_lost' | 'shutdown' | 'lease_lost' | 'deleted';

/** The typed reason of an aborted signal and of a cancelled operation. */
export class CanceledError extends PerdureError {
  readonly reason: string;
  readonly trigger: CancelTrigger;

  constructor(reason: string, trigger: CancelTrigger) {
    super('OPERATION_CANCELED', `Canceled (${trigger}): ${reason}`);
    this.reason = reason;
    this.trigger = trigger;
  }
}

/**
 * An activity, a child or an instance failed. `failure` and `cause` hold what it failed with. The code is `TIMEOUT` when
 * the last attempt of an activity timed out, and `POISON` when the work was claimed too often without an outcome.
 */
export class FailedError extends PerdureError {
  /** The name of the activity or orchestration that failed. */
  readonly subject: string;
  readonly failure: Failure;

  constructor(options: {
    readonly code: 'ACTIVITY_FAILED' | 'CHILD_FAILED' | 'INSTANCE_FAILED' | 'TIMEOUT' | 'POISON';
    readonly message: string;
    readonly subject: string;
    readonly failure: Failure;
    readonly cause: unknown;
  }) {
    super(options.code, options.message, { cause: options.cause });
    this.subject = options.subject;
    this.failure = options.failure;
  }
}

/** There is no instance with this id. */
export function notFound(instanceId: string): PerdureError {
  return new PerdureError(
    'INSTANCE_NOT_FOUND',
    `There is no instance ${JSON.stringify(instanceId)} in this store. Check the id, or whether it was deleted.`,
  );
}
