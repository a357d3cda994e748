import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout } from 'node:timers';

/**
 * Operations that a lease depends on, and the short ones beside them: their answer is worth nothing once the lease has
 * expired. Deletions, lists and counts are not among them: they may take as long as a statement may.
 */
const leaseBound: ReadonlySet<string> = new Set([
  'poll',
  'fetchOrchestrationItems',
  'fetchWorkItems',
  'readHistory',
  'ackOrchestrationItems',
  'ackTurns',
  'ackWorkItems',
  'renewOrchestrationLocks',
  'renewWorkItemLocks',
  'renewSessions',
  'abandonOrchestrationItems',
  'abandonWorkItems',
  'retryWorkItems',
  'markPointOfNoReturn',
  'createInstances',
  'createTasks',
  'enqueueMessages',
  'requestCancel',
  'getInstances',
  'dueSchedules',
  'dueSessions',
  'takeLease',
  'endBackend',
]);

/** Whether an operation must be answered within `answerTimeoutMs`. */
export function isLeaseBound(operation: string): boolean {
  return leaseBound.has(operation);
}

// A watch looks four times per deadline, so silence is found at most a quarter late.
const looks = 4;

/** Calls back once a socket has neither sent nor received a byte for `ms`; returns how to stop. */
export function watchSilence(stream: Duplex, ms: number, onSilent: () => void): () => void {
  let seen = Number.NaN;
  let quietLooks = 0;
  let timer = setTimeout(look, ms / looks);
  function look(): void {
    const traffic = trafficOf(stream);
    quietLooks = traffic === seen ? quietLooks + 1 : 0;
    seen = traffic;
    if (quietLooks === looks) onSilent();
    else timer = setTimeout(look, ms / looks);
  }
  return () => clearTimeout(timer);
}

function trafficOf(stream: Duplex): number {
  if (!(stream instanceof Socket)) return 0;
  return stream.bytesRead + stream.bytesWritten - stream.writableLength;
}

/** The error of statements whose connection went silent: their outcome is that of a lost connection. */
export function silentError(ms: number): Error {
  return Object.assign(new Error(`the server did not answer for ${ms} ms`), { code: 'ETIMEDOUT' });
}
