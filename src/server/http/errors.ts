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

/** Why a caller was turned away, for the log and the metrics. */
export type RejectionReason =
  'token' | 'revoked' | 'role' | 'definition' | 'session' | 'origin' | 'proxy';

/** A request that the server refuses by itself, before anything behind it is asked. */
export class HttpError extends PerdureError {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly issues: WireError['issues'];
  /** Whether what was asked for may have happened all the same. */
  readonly outcomeUnknown: boolean;
  /** Set where the status is 401 or 403. */
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

/** One answer for no token, a wrong one and one that has expired. */
export function unauthenticated(reason: 'token' | 'revoked' = 'token'): HttpError {
  return new HttpError(
    'UNAUTHENTICATED',
    'This needs a valid token: send it as Authorization: Bearer <token>.',
    { status: 401, headers: { 'www-authenticate': 'Bearer' }, reason },
  );
}

/** Too much is asked at once, or the server is going away: the same request may do later. */
export function unavailable(why: string): HttpError {
  return new HttpError('UNAVAILABLE', `${why} Try again in a moment.`, {
    status: 503,
    headers: { 'retry-after': '1' },
  });
}

/** This caller does too much at once: the others are not affected, and it may try again later. */
export function rateLimited(why: string): HttpError {
  return new HttpError('RATE_LIMITED', `${why} Slow down.`, {
    status: 429,
    headers: { 'retry-after': '1' },
  });
}

/** A request that could never be understood. */
export function invalidRequest(message: string, issues?: WireError['issues']): HttpError {
  return new HttpError('INVALID_REQUEST', message, {
    status: 400,
    ...(issues !== undefined && { issues }),
  });
}

const statusByCode: Readonly<Partial<Record<ErrorCode, number>>> = {
  INSTANCE_NOT_FOUND: 404,
  SCHEDULE_NOT_FOUND: 404,
  SESSION_NOT_FOUND: 404,
  UNREGISTERED: 404,
  INSTANCE_ALREADY_EXISTS: 409,
  INSTANCE_OVER: 409,
  INSTANCE_STILL_RUNNING: 409,
  CANNOT_DELETE_SUB_ORCHESTRATION: 409,
  SIGNAL_ALREADY_DELIVERED: 409,
  EVENT_BUFFER_FULL: 409,
  SESSION_CLOSED: 409,
  SESSION_DOWNGRADE: 409,
  AMBIGUOUS_SESSION: 409,
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

/** The status of the answer to a request that failed so. */
export function statusOf(error: unknown): number {
  if (error instanceof HttpError) return error.status;
  if (error instanceof ProviderError) return error.retryable ? 503 : 500;
  return (isPerdureError(error) ? statusByCode[error.code] : undefined) ?? 500;
}

/** What the other side is told of an error: never a stack, a statement, a path or anything of somebody else's. */
export function toWireError(error: unknown, showStacks: boolean): WireError {
  if (!isPerdureError(error)) {
    return {
      code: 'INTERNAL',
      message: 'Something went wrong in the server. Its log has the details, by the request id.',
    };
  }
  return {
    code: error.code,
    message: error instanceof ProviderError ? describe(error) : error.message,
    ...detailsOf(error, showStacks),
  };
}

/** A failure as it is shown: without stacks, which tell of files on the machine that ran the code. */
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

// The message of a store may quote statements and addresses.
function describe({ operation, retryable }: ProviderError): string {
  return retryable
    ? `The store could not do ${operation} now. Try again in a moment.`
    : `The store could not do ${operation}. The log of the server has the details, by the request id.`;
}
