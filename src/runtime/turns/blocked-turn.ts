import { encodeBlockedDetails } from '../../model/failures/blocked.ts';
import { isPerdureError, NondeterminismError } from '../../model/failures/errors.ts';
import type { Blocked } from '../../providers/contract/orchestration-queue.ts';

/** Describes the error of a turn that is not committed: why its instance is blocked. */
export function toBlocked(
  error: unknown,
  { worker, buildId }: { readonly worker: string; readonly buildId: string },
): Blocked {
  const details = { code: codeOf(error), worker, ...disagreementOf(error) };
  return { reason: reasonOf(error), buildId, details: encodeBlockedDetails(details) };
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The code of its cause, if the code itself threw the error to block its instance. */
function codeOf(error: unknown): string {
  if (!isPerdureError(error)) return 'INTERNAL';
  const { cause } = error;
  return error instanceof NondeterminismError && isPerdureError(cause) ? cause.code : error.code;
}

function disagreementOf(error: unknown) {
  if (!(error instanceof NondeterminismError) || error.events === undefined) return {};
  return { eventId: error.eventId, ...error.events };
}
