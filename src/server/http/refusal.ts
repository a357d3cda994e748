import { PerdureError, type ErrorCode } from '../../model/failures/errors.ts';
import type { WireError } from '../routes/error-response.ts';

/** Why a caller was turned away, for the log and the metrics. */
export type RefusalReason =
  'token' | 'revoked' | 'role' | 'definition' | 'session' | 'origin' | 'proxy';

/** A request that the server refuses by itself, before anything behind it is asked. */
export class Refusal extends PerdureError {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly issues: WireError['issues'];
  /** Whether what was asked for may have happened all the same. */
  readonly outcomeUnknown: boolean;
  /** Set where the status is 401 or 403. */
  readonly reason: RefusalReason | undefined;

  constructor(
    code: ErrorCode,
    message: string,
    options: {
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly issues?: WireError['issues'];
      readonly outcomeUnknown?: boolean;
      readonly reason?: RefusalReason;
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
export function unauthenticated(reason: 'token' | 'revoked' = 'token'): Refusal {
  return new Refusal(
    'UNAUTHENTICATED',
    'This needs a valid token: send it as Authorization: Bearer <token>.',
    { status: 401, headers: { 'www-authenticate': 'Bearer' }, reason },
  );
}

/** Too much is asked at once, or the server is going away: the same request may do later. */
export function unavailable(why: string): Refusal {
  return new Refusal('UNAVAILABLE', `${why} Try again in a moment.`, {
    status: 503,
    headers: { 'retry-after': '1' },
  });
}

/** This caller does too much at once: the others are not affected, and it may try again later. */
export function rateLimited(why: string): Refusal {
  return new Refusal('RATE_LIMITED', `${why} Slow down.`, {
    status: 429,
    headers: { 'retry-after': '1' },
  });
}

/** A request that could never be understood. */
export function invalidRequest(message: string, issues?: WireError['issues']): Refusal {
  return new Refusal('INVALID_REQUEST', message, {
    status: 400,
    ...(issues !== undefined && { issues }),
  });
}
