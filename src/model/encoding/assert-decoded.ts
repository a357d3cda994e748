import { PerdureError } from '../failures/errors.ts';
import { encodedError, isEncoded } from './envelope.ts';
import { isSealedFailure } from './sealed-failure.ts';

/**
 * Throws `CODEC_FAILED` if a stored event, message or work item is still encoded. A worker then holds its instance back
 * instead of running code with wrong data.
 */
export function assertDecoded(
  payload: string | null | undefined,
  fields?: { readonly failure?: unknown; readonly broken?: unknown; readonly event?: unknown },
): void {
  if (typeof payload === 'string' && isEncoded(payload)) throw encodedError(payload);
  if (fields === undefined) return;
  const { failure = (fields.broken as { readonly failure?: unknown } | undefined)?.failure } =
    fields;
  const raised = (fields.event as { readonly payload?: unknown } | undefined)?.payload;
  if (typeof raised === 'string' && isEncoded(raised)) throw encodedError(raised);
  if (isSealedFailure(failure)) throw new PerdureError('CODEC_FAILED', failure.message);
}
