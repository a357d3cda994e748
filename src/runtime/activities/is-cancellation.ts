import { isPerdureError, type CanceledError } from '../../model/failures/errors.ts';

/** Whether an error says no more than that the handler stopped as it was told to. */
export function isStop(error: unknown, reason: CanceledError): boolean {
  if (error === reason || isPerdureError(error, 'OPERATION_CANCELED')) return true;
  return error instanceof Error && (error.name === 'AbortError' || error.cause === reason);
}
