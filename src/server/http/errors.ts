import {
  PerdureError,
  CanceledError,
  FailedError,
  isPerdureError,
  NondeterminismError,
  ProviderError,
  type ErrorCode,
} from '../../model/failures/errors.ts';
import type { Failure } from '../../model/failures/failure.ts';
import type { WireError } from '../routes/response-schemas.ts';

/** Why a request was rejected with 401 or 403, for the log and the metrics. */
export type RejectionReason =
  | 'token'
  | 'revoked'
  | 'role'
  | 'definition'
  | 'session'
  | 'origin'
  | 'proxy'
  | 'csrf'
  | 'readOnly';

/** An error of the server itself, with the status and headers of its response. */
export class HttpError extends PerdureError {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly issues: WireError['issues'];
  /** Whether the operation may have been committed. */
  readonly outcomeUnknown: boolean;
  /** Set if the status is 401 or 403. */
  readonly reason: RejectionReason | undefined;

  constructor(
    code: ErrorCode,
    message: string,
    options: {
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly issues?: WireError['issues'];
      readonly outcomeUnknown?: boolean;
      readonly reason?: RejectionReason;
    },
  ) {
    super(code, message);
    this.status = options.status;
    this.headers = options.headers ?? {};
    this.issues = options.issues;
    this.outcomeUnknown = options.outcomeUnknown ?? false;
    this.reason = options.reason;
  }
}

/** 401. A missing, a wrong and an expired token get the same response. */
export function unauthenticated(reason: 'token' | 'revoked' = 'token'): HttpError {
  return new HttpError(
    'UNAUTHENTICATED',
    'Missing or invalid token: send it as `Authorization: Bearer <token>`.',
    { status: 401, headers: { 'www-authenticate': 'Bearer' }, reason },
  );
}

/** 401. The login session of the request has ended, or another process opened it. */
export function sessionEnded(): HttpError {
  return new HttpError('UNAUTHENTICATED', 'The session has ended. Sign in again.', {
    status: 401,
    headers: { 'www-authenticate': 'Bearer' },
    reason: 'revoked',
  });
}

/** 503. The server is overloaded or closing; the caller may retry. */
export function unavailable(problem: string): HttpError {
  return new HttpError('UNAVAILABLE', `${problem} Retry later.`, {
    status: 503,
    headers: { 'retry-after': '1' },
  });
}

/** 429. The caller exceeds its own limit; other callers are not affected. */
export function rateLimited(problem: string, retryAfterMs = 0): HttpError {
  const seconds = Math.max(1, Math.ceil(retryAfterMs / 1_000));
  return new HttpError('RATE_LIMITED', `${problem} Retry after ${seconds} s.`, {
    status: 429,
    headers: { 'retry-after': String(seconds) },
  });
}

/** 400. The request does not match the schema of its route. */
export function invalidRequest(message: string, issues?: WireError['issues']): HttpError {
  return new HttpError('INVALID_REQUEST', message, {
    status: 400,
    ...(issues !== undefined && { issues }),
  });
}

/** 503: `close()` was called. */
export function serverClosing(): HttpError {
  return unavailable('The server is closing.');
}

/** 408: the body did not arrive within `requestMs`. */
export function bodyTimeout(): HttpError {
  return new HttpError('INVALID_REQUEST', 'The request body did not arrive in time.', {
    status: 408,
  });
}

/** 503: the handler did not return within `requestMs`. It still runs. */
export function requestTimeout(): HttpError {
  return new HttpError(
    'UNAVAILABLE',
    'Request timed out. The operation may still complete: check its status before retrying.',
    { status: 503, outcomeUnknown: true },
  );
}

/** Rejects with `toError()` if `work` does not settle within `ms`. Does not stop the work. */
export async function withTimeout<Value>(
  work: Value | Promise<Value>,
  ms: number,
  toError: () => Error,
): Promise<Value> {
  const { promise: timeout, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(toError()), ms);
  try {
    return await Promise.race([work, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

const statusByCode: Readonly<Partial<Record<ErrorCode, number>>> = {
  INSTANCE_NOT_FOUND: 404,
  SCHEDULE_NOT_FOUND: 404,
  SESSION_NOT_FOUND: 404,
  UNREGISTERED: 404,
  AWAKEABLE_NOT_FOUND: 404,
  AWAKEABLE_ALREADY_ANSWERED: 409,
  UNKNOWN_UPDATE: 400,
  UPDATE_REJECTED: 409,
  UPDATE_FAILED: 409,
  UPDATE_INTERRUPTED: 409,
  UPDATE_KEY_REUSED: 409,
  TOO_MANY_UPDATES: 409,
  FORBIDDEN_IN_VALIDATION: 409,
  INSTANCE_ALREADY_EXISTS: 409,
  INSTANCE_OVER: 409,
  INSTANCE_STILL_RUNNING: 409,
  INSTANCE_NOT_RETRYABLE: 409,
  CANNOT_DELETE_SUB_ORCHESTRATION: 409,
  SIGNAL_ALREADY_DELIVERED: 409,
  EVENT_BUFFER_FULL: 409,
  SESSION_CLOSED: 409,
  SESSION_DOWNGRADE: 409,
  AMBIGUOUS_SESSION: 409,
  STREAM_TAKEN: 409,
  CURSOR_UNKNOWN: 409,
  TIMEOUT: 409,
  PAYLOAD_TOO_LARGE: 413,
  INVALID_INPUT: 400,
  INVALID_NAME: 400,
  INVALID_ID: 400,
  INVALID_DURATION: 400,
  INVALID_OPTION: 400,
  INVALID_FLOW: 400,
  INVALID_SCHEDULE: 400,
  NOT_SERIALIZABLE: 400,
  UNKNOWN_SIGNAL: 400,
  CLOSED: 503,
};

export function statusOf(error: unknown): number {
  if (error instanceof HttpError) return error.status;
  if (error instanceof ProviderError) return error.retryable ? 503 : 500;
  return (isPerdureError(error) ? statusByCode[error.code] : undefined) ?? 500;
}

/** Serializes an error for the caller, without SQL or paths. Stacks need `showStacks`. */
export function toWireError(error: unknown, showStacks: boolean): WireError {
  if (!isPerdureError(error)) {
    return {
      code: 'INTERNAL',
      message: 'Internal server error. The log of the server has the details, by `requestId`.',
    };
  }
  return {
    code: error.code,
    message: error instanceof ProviderError ? describe(error) : error.message,
    ...detailsOf(error, showStacks),
  };
}

/** Removes the stacks of a failure unless `showStacks` is set: they name files of the worker. */
export function toFailureResponse(failure: Failure, showStacks: boolean): Failure {
  if (showStacks) return failure;
  const { stack: _, cause, ...rest } = failure;
  return cause === undefined ? rest : { ...rest, cause: toFailureResponse(cause, showStacks) };
}

function detailsOf(error: PerdureError, showStacks: boolean): Partial<WireError> {
  if (error instanceof CanceledError) return { reason: error.reason, trigger: error.trigger };
  if (error instanceof FailedError) {
    return { subject: error.subject, failure: toFailureResponse(error.failure, showStacks) };
  }
  if (error instanceof NondeterminismError) return { eventId: error.eventId };
  if (error instanceof ProviderError) {
    const { operation, retryable, outcomeUnknown } = error;
    return { operation, retryable, outcomeUnknown };
  }
  if (!(error instanceof HttpError)) return {};
  const { issues, outcomeUnknown } = error;
  return { ...(issues !== undefined && { issues }), ...(outcomeUnknown && { outcomeUnknown }) };
}

// The message of a store may contain SQL and addresses.
function describe({ operation, retryable }: ProviderError): string {
  return retryable
    ? `The store cannot run ${operation} now. Retry later.`
    : `The store failed to run ${operation}. The log of the server has the details, by \`requestId\`.`;
}
