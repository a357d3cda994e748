import {
  CanceledError,
  FailedError,
  NondeterminismError,
  PerdureError,
  ProviderError,
  type ErrorCode,
} from '../model/failures/errors.ts';
import { toError } from '../model/failures/failure.ts';
import type { WireError } from '../server/routes/response-schemas.ts';
import { wireError } from './instance-shapes.ts';

/** Returns the error of a response body; `undefined` if it has none of ours. */
export function readWireError(body: unknown): WireError | undefined {
  const error = (body as { readonly error?: Partial<WireError> | null } | null | undefined)?.error;
  return wireError(error, 'error') === undefined ? (error as WireError) : undefined;
}

/** Returns the typed error that the server threw. */
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
    case 'UPDATE_FAILED':
    case 'AWAKEABLE_REJECTED':
      return toFailed(code, error);
    case 'NONDETERMINISM':
      return new NondeterminismError(message, error.eventId ?? 0);
    case 'PROVIDER':
    case 'UNDECODABLE':
    case 'STORE_TOO_NEW':
    case 'STORE_TOO_OLD':
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
    // A local client rejects the same arguments with these codes.
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

/** The server was unreachable or overloaded, or its response was lost. Retryable. */
export class UnreachableError extends ProviderError {
  /** Minimum pause before a retry, from `Retry-After`. */
  readonly waitMs: number;
  /** Whether the server may have rejected the origin of this page. Browsers report that as a network error. */
  readonly maybeForeignOrigin: boolean;

  constructor(options: {
    readonly operation: string;
    readonly message: string;
    /** Whether the call may have had its effect. */
    readonly outcomeUnknown: boolean;
    readonly waitMs?: number;
    readonly maybeForeignOrigin?: boolean;
    readonly cause?: unknown;
  }) {
    super({ ...options, retryable: true });
    this.name = ProviderError.name;
    this.waitMs = options.waitMs ?? 0;
    this.maybeForeignOrigin = options.maybeForeignOrigin ?? false;
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

/** Whether a failed `fetch` never connected. Always false in browsers, which do not report it. */
export function wasNeverSent(error: unknown): boolean {
  const { cause } = (error ?? {}) as { readonly cause?: { readonly code?: unknown } | null };
  return neverSent.has(cause?.code);
}

/** Returns the origin of this page if it differs from that of the server. */
export function foreignPageOrigin(baseUrl: string): string | undefined {
  const { location } = globalThis as { readonly location?: { readonly origin?: unknown } };
  const origin = location?.origin;
  // Only pages and their workers have an http location.
  if (typeof origin !== 'string' || !/^https?:/.test(origin)) return undefined;
  return origin === new URL(baseUrl).origin ? undefined : origin;
}
