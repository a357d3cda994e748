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
import { wireError } from './answer-shapes.ts';

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
