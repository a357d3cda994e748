import { NondeterminismError } from '../model/errors.ts';

/** Says where code and history part, what each of them says, and what to do about it. */
export function nondeterminism(disagreement: {
  readonly instanceId: string;
  readonly executionId: number;
  readonly eventId: number;
  /** Completes "history …". */
  readonly history: string;
  /** Completes "but the code …". */
  readonly code: string;
}): NondeterminismError {
  const { instanceId, executionId, eventId, history, code } = disagreement;
  return new NondeterminismError(
    `Instance '${instanceId}', execution ${executionId}, event ${eventId}: history ${history}, but the code ${code}. ` +
      'Restore the old code path, or register the changed code as a new version beside the old one.',
    eventId,
  );
}
