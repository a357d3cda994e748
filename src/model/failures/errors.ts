import type { EventSummary } from './blocked.ts';
import type { Failure } from './failure.ts';

/** The codes of Perdure's errors. */
export type ErrorCode =
  // Programming errors: change the call or the code.
  | 'INVALID_INPUT'
  | 'INVALID_NAME'
  | 'INVALID_ID'
  | 'INVALID_DURATION'
  | 'INVALID_OPTION'
  | 'INVALID_FLOW'
  | 'NOT_SERIALIZABLE'
  | 'PAYLOAD_TOO_LARGE'
  | 'STATE_LIMIT_EXCEEDED'
  | 'UNREGISTERED'
  | 'ALREADY_REGISTERED'
  | 'INSTANCE_ALREADY_EXISTS'
  | 'INSTANCE_NOT_FOUND'
  | 'INSTANCE_OVER'
  | 'INSTANCE_STILL_RUNNING'
  | 'INSTANCE_NOT_RETRYABLE'
  | 'CANNOT_DELETE_SUB_ORCHESTRATION'
  | 'NONDETERMINISM'
  | 'STRAY_AWAIT'
  | 'INSIDE_STEP'
  | 'CANCEL_IGNORED'
  | 'NEVER_AWAITED'
  | 'FORBIDDEN_IN_ORCHESTRATION'
  | 'FORBIDDEN_IN_VALIDATION'
  | 'UNKNOWN_UPDATE'
  | 'UPDATE_KEY_REUSED'
  | 'TOO_MANY_UPDATES'
  | 'AWAKEABLE_NOT_FOUND'
  | 'AWAKEABLE_ALREADY_ANSWERED'
  | 'UNKNOWN_SIGNAL'
  | 'SIGNAL_ALREADY_DELIVERED'
  | 'CLOSED'
  | 'OUTSIDE_HANDLER'
  | 'BATCH_RUN_SETTLED'
  | 'INVALID_SCHEDULE'
  | 'SCHEDULE_NOT_FOUND'
  | 'SESSION_CLOSED'
  | 'SESSION_NOT_FOUND'
  | 'AMBIGUOUS_SESSION'
  | 'SESSION_DOWNGRADE'
  | 'JOB_CLOSED'
  | 'STREAM_TAKEN'
  | 'STREAM_OVERFLOW'
  | 'CURSOR_UNKNOWN'
  | 'TRANSACTION_CLOSED'
  | 'TRANSACTION_NESTED'
  | 'TRANSACTION_STATEMENT'
  | 'TRANSACTION_UNSUPPORTED'
  // Outcomes of user code.
  | 'ACTIVITY_FAILED'
  | 'CHILD_FAILED'
  | 'INSTANCE_FAILED'
  | 'INSTANCE_TERMINATED'
  | 'UPDATE_REJECTED'
  | 'UPDATE_FAILED'
  | 'UPDATE_INTERRUPTED'
  | 'AWAKEABLE_REJECTED'
  | 'STEP_FAILED'
  | 'CONDITION_FAILED'
  | 'BATCH_RUN_UNSETTLED'
  | 'NO_OUTPUT'
  | 'POISON'
  | 'EVENT_LOOP_BLOCKED'
  | 'TRANSACTION_ABORTED'
  | 'TRANSACTION_TIMEOUT'
  | 'TIMEOUT'
  | 'EVENT_BUFFER_FULL'
  | 'TASK_SKIPPED'
  | 'TASK_EXPIRED'
  // Cancellation.
  | 'OPERATION_CANCELED'
  // Rejections by a server.
  | 'INVALID_REQUEST'
  | 'UNAUTHENTICATED'
  | 'FORBIDDEN'
  | 'READ_ONLY'
  | 'NO_SUCH_ROUTE'
  | 'METHOD_NOT_ALLOWED'
  | 'NOT_JSON'
  | 'BODY_TOO_LARGE'
  | 'WRONG_HOST'
  | 'RATE_LIMITED'
  | 'UNAVAILABLE'
  | 'INTERNAL'
  // Platform.
  | 'DASHBOARD_NOT_BUILT'
  | 'LOCK_LOST'
  | 'PROVIDER'
  | 'UNDECODABLE'
  | 'CODEC_FAILED'
  | 'STORE_TOO_NEW'
  | 'STORE_TOO_OLD'
  | 'STORE_INCOMPATIBLE'
  | 'STORE_DAMAGED'
  | 'STORE_REPLACED';

// Symbol.for works across copies of the package; instanceof does not.
const brand = Symbol.for('perdure.error');

/** The base class of all errors that Perdure throws. `code` identifies the error. */
export class PerdureError extends Error {
  readonly code: ErrorCode;
  /** Set if `ctx.select` rejects with this error: the key or index of the member that failed. */
  declare readonly selectKey?: string | number;

  constructor(code: ErrorCode, message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
    Object.defineProperty(this, brand, { value: true });
  }

  /** Whether a value is an error of Perdure, also of another copy of the package. */
  static is(error: unknown): error is PerdureError {
    try {
      return typeof error === 'object' && error !== null && brand in error;
    } catch {
      // A proxy may throw. It is not an error of Perdure.
      return false;
    }
  }
}

/** Whether a value is an error of Perdure, optionally with this code. Works across copies of the package. */
export function isPerdureError(error: unknown, code?: ErrorCode): error is PerdureError {
  return PerdureError.is(error) && (code === undefined || error.code === code);
}

/** Codes of a store that cannot be used. */
type StoreRefusal = Extract<ErrorCode, `STORE_${string}`>;

/** An error of a store: the operation that failed, and whether a retry can help. */
export class ProviderError extends PerdureError {
  readonly operation: string;
  readonly retryable: boolean;
  /** Whether the operation may have been committed: check before you retry a write without a fence. */
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

/** The lease of a claim has expired, or another claim replaced it. Nothing was changed. */
export class LockLostError extends ProviderError {
  constructor(operation: string) {
    super({
      operation,
      message: `${operation}: the lock is no longer held, so nothing was changed. Its current holder does the work.`,
      retryable: false,
      code: 'LOCK_LOST',
    });
  }
}

/**
 * Code and history disagree: the orchestration was changed while the instance was running. If the code itself throws
 * it, the turn is not committed and the instance is blocked.
 */
export class NondeterminismError extends PerdureError {
  /** The id of the event that disagrees, or the one after the last. */
  readonly eventId: number;
  /** The recorded event without its payload: `activity "chargeCard"`. Absent if the code itself threw the error. */
  readonly recorded?: string;
  /** The issued event without its payload: `timer`. */
  readonly issued?: string;
  /** Both events, if there are such. */
  readonly events?: { readonly recorded?: EventSummary; readonly issued?: EventSummary };

  constructor(
    message: string,
    eventId: number,
    difference?: {
      readonly recorded: string;
      readonly issued: string;
      readonly events?: { readonly recorded?: EventSummary; readonly issued?: EventSummary };
    },
    options?: { readonly cause?: unknown },
  ) {
    super('NONDETERMINISM', message, options);
    this.eventId = eventId;
    if (difference === undefined) return;
    this.recorded = difference.recorded;
    this.issued = difference.issued;
    if (difference.events !== undefined) this.events = difference.events;
  }
}

/** Why a running handler or a pending operation was canceled. */
export type CancelTrigger =
  | 'cancel'
  | 'timeout'
  | 'race_lost'
  | 'shutdown'
  | 'lease_lost'
  | 'deleted';

/** The reason of an aborted signal, and the error of a canceled operation. */
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
 * An activity, a child, an instance or an update failed, or an awakeable was rejected. `failure` and `cause` contain its error. The code is `TIMEOUT` if the last
 * attempt of an activity timed out, and `POISON` if the work was claimed too often without an outcome.
 */
export class FailedError extends PerdureError {
  /** The name of the activity, orchestration or update that failed. Empty for an awakeable. */
  readonly subject: string;
  readonly failure: Failure;

  constructor(options: {
    readonly code:
      | 'ACTIVITY_FAILED'
      | 'STEP_FAILED'
      | 'CHILD_FAILED'
      | 'INSTANCE_FAILED'
      | 'UPDATE_FAILED'
      | 'AWAKEABLE_REJECTED'
      | 'TIMEOUT'
      | 'POISON';
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

/** The `INSTANCE_NOT_FOUND` error of an id. */
export function notFound(instanceId: string): PerdureError {
  return new PerdureError(
    'INSTANCE_NOT_FOUND',
    `Instance ${JSON.stringify(instanceId)} does not exist in this store. Check the id; it may have been deleted.`,
  );
}
