import { CanceledError, PerdureError } from '../model/failures/errors.ts';

/** Something was asked of a job that its caller has closed. */
export function jobClosed(id: string): PerdureError {
  return new PerdureError(
    'JOB_CLOSED',
    `Job ${JSON.stringify(id)} is closed: whoever closes a job gives up its reply. Take the result first, or see with get() how its run ended.`,
  );
}

/** Something was asked of a job whose session has ended, or of a session that takes no more. */
export function sessionClosed(sessionId: string, state: string): PerdureError {
  return new PerdureError(
    'SESSION_CLOSED',
    `Session ${JSON.stringify(sessionId)} is ${state} and takes no jobs. Open another one.`,
  );
}

/** There is no such session. */
export function sessionNotFound(reference: string): PerdureError {
  return new PerdureError(
    'SESSION_NOT_FOUND',
    `There is no session ${JSON.stringify(reference)}. Sessions are removed a day after their end; list() shows those that are there.`,
  );
}

/** A session that cancels its jobs cannot go back to letting them end. */
export function sessionDowngrade(sessionId: string): PerdureError {
  return new PerdureError(
    'SESSION_DOWNGRADE',
    `Session ${JSON.stringify(sessionId)} is being shut down forcefully, which cannot be made graceful. Wait for its end with shutdown('forceful').`,
  );
}

/** Several sessions have this label. */
export function ambiguousSession(label: string, ids: readonly string[]): PerdureError {
  return new PerdureError(
    'AMBIGUOUS_SESSION',
    `Several sessions have the label ${JSON.stringify(label)}. Use one of their ids: ${ids.join(', ')}.`,
  );
}

/** The chunks of a job have one reader. */
export function streamTaken(id: string): PerdureError {
  return new PerdureError(
    'STREAM_TAKEN',
    `The stream of job ${JSON.stringify(id)} is being read already, and chunks are gone once they are read. Share what stream() returned the first time.`,
  );
}

/** A job was stopped before anybody was told of it. */
export function canceledUnsent(reason: string): CanceledError {
  return new CanceledError(reason, 'cancel');
}

/** A job was not over in time. */
export function resultTimedOut(id: string, timeoutMs: number): PerdureError {
  return new PerdureError(
    'TIMEOUT',
    `Job ${JSON.stringify(id)} was not over after ${timeoutMs} ms. It goes on: ask for the result again, or close() it.`,
  );
}
