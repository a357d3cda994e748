import { CanceledError, PerdureError } from '../model/failures/errors.ts';

/** The job was closed by its caller. */
export function jobClosed(id: string): PerdureError {
  return new PerdureError(
    'JOB_CLOSED',
    `Job ${JSON.stringify(id)} is closed, which gives up its reply. Take the result before close(), or read how the run ended with get().`,
  );
}

/** The session has ended or accepts no more jobs. */
export function sessionClosed(sessionId: string, state: string): PerdureError {
  return new PerdureError(
    'SESSION_CLOSED',
    `Session ${JSON.stringify(sessionId)} is ${state} and accepts no jobs. Open another one.`,
  );
}

/** The session does not exist. */
export function sessionNotFound(reference: string): PerdureError {
  return new PerdureError(
    'SESSION_NOT_FOUND',
    `Session ${JSON.stringify(reference)} does not exist. Sessions are deleted a day after their end. List them with sessions.list().`,
  );
}

/** A forceful shutdown cannot become graceful. */
export function sessionDowngrade(sessionId: string): PerdureError {
  return new PerdureError(
    'SESSION_DOWNGRADE',
    `Session ${JSON.stringify(sessionId)} is being shut down forcefully, which cannot become graceful. Wait for its end with shutdown('forceful').`,
  );
}

/** Several sessions have this label. */
export function ambiguousSession(label: string, ids: readonly string[]): PerdureError {
  return new PerdureError(
    'AMBIGUOUS_SESSION',
    `Several sessions have the label ${JSON.stringify(label)}. Use one of their ids: ${ids.join(', ')}.`,
  );
}

/** The stream of the job already has a reader. */
export function streamTaken(id: string): PerdureError {
  return new PerdureError(
    'STREAM_TAKEN',
    `The stream of job ${JSON.stringify(id)} already has a reader, and each chunk is delivered once. Share the iterator of the first stream() call.`,
  );
}

/** The job was canceled before it was sent. */
export function canceledUnsent(reason: string): CanceledError {
  return new CanceledError(reason, 'cancel');
}

/** The job has not ended in time. */
export function resultTimedOut(id: string, timeoutMs: number): PerdureError {
  return new PerdureError(
    'TIMEOUT',
    `Job ${JSON.stringify(id)} has not ended after ${timeoutMs} ms. It continues: call result() again, or close() it.`,
  );
}
