import {
  CanceledError,
  FailedError,
  NondeterminismError,
  PerdureError,
  ProviderError,
  type ErrorCode,
} from '../model/failures/errors.ts';
import { toError } from '../model/failures/failure.ts';
import type { WireError } from '../server/routes/error-response.ts';
import { wireError } from './response-shapes.ts';

/** The error that the body of an answer carries, if it is one of ours. */
export function readWireError(body: unknown): WireError | undefined {
  const error = (body as { readonly error?: Partial<WireError> | null } | null | undefined)?.error;
  return wireError(error, 'error') === undefined ? (error as WireError) : undefined;
}

/** The typed error that was thrown on the other side. */
export function toTypedError(error: WireError, operation: string): PerdureError {
  const { message } = error;
  const code = error.code as ErrorCode;
  if (code === 'POISON' || code === 'TIMEOUT') {
    return error.failure === undefined ? new PerdureError(code, message) : toFailed(code, error);
  }
  switch (code) {
    case 'OPERATION_CANCELED':
      return new CanceledError(error.reason ?? message, error.trigger ?? 'cancel');
    case 'INSTANCE_FAILED':
    case 'ACTIVITY_FAILED':
    case 'CHILD_FAILED':
      return toFailed(code, error);
    case 'NONDETERMINISM':
      return new NondeterminismError(message, error.eventId ?? 0);
    case 'PROVIDER':
    case 'UNDECODABLE':
    case 'STORE_TOO_NEW':
    case 'STORE_INCOMPATIBLE':
    case 'STORE_DAMAGED':
    case 'STORE_REPLACED':
      return new ProviderError({
        operation: error.operation ?? operation,
        message,
        code,
        retryable: error.retryable ?? false,
        outcomeUnknown: error.outcomeUnknown ?? false,
      });
    // What the server refuses unread is what a local client would have refused as well.
    case 'INVALID_REQUEST':
      return new PerdureError('INVALID_INPUT', message);
    case 'BODY_TOO_LARGE':
      return new PerdureError('PAYLOAD_TOO_LARGE', message);
    default:
      return new PerdureError(code, message);
  }
}

type FailedCode = ConstructorParameters<typeof FailedError>[0]['code'];

function toFailed(code: FailedCode, error: WireError): FailedError {
  const { message, subject = '', failure = { name: 'Error', message } } = error;
  return new FailedError({ code, message, subject, failure, cause: toError(failure) });
}

/** The server could not be reached, would not take the call now, or its answer was lost: asking again may help. */
export class UnreachableError extends ProviderError {
  /** How long the server asks to be left alone. */
  readonly waitMs: number;
  /** Whether the server may have refused the origin of this page, which browsers do not tell from no answer. */
  readonly maybeOrigin: boolean;

  constructor(options: {
    readonly operation: string;
    readonly message: string;
    /** Whether the call may have been done all the same. */
    readonly outcomeUnknown: boolean;
    readonly waitMs?: number;
    readonly maybeOrigin?: boolean;
    readonly cause?: unknown;
  }) {
    super({ ...options, retryable: true });
    this.name = ProviderError.name;
    this.waitMs = options.waitMs ?? 0;
    this.maybeOrigin = options.maybeOrigin ?? false;
  }
}

const neverSent: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** Whether a failed `fetch` says that there was no connection at all; browsers never say. */
export function wasNeverSent(error: unknown): boolean {
  const { cause } = (error ?? {}) as { readonly cause?: { readonly code?: unknown } | null };
  return neverSent.has(cause?.code);
}

/** The origin of the page that this runs in, where it is another one than that of a server. */
export function foreignPageOrigin(baseUrl: string): string | undefined {
  const { location } = globalThis as { readonly location?: { readonly origin?: unknown } };
  const origin = location?.origin;
  // Only pages and their workers have a location of http.
  if (typeof origin !== 'string' || !/^https?:/.test(origin)) return undefined;
  return origin === new URL(baseUrl).origin ? undefined : origin;
}
