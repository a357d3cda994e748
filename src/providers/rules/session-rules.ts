/** How sessions end, whatever they are stored in. */
import type {
  SessionEnd,
  SessionState,
  ShutdownResult,
  ShutdownSession,
} from '../contract/sessions.ts';

/** What is to be changed about the state of a session. */
export interface SessionMove {
  readonly sessionKey: number;
  readonly state: SessionState;
  readonly end: SessionEnd | null;
  readonly dueAt: number;
}

/** How long a session that is to end belongs to the worker that was told of it. */
export const handedOutMs = 5_000;

/** How long after a settling that did not end it a session is looked at again. */
export const settleEveryMs = 1_000;

/** How long a session can be looked at after its end. */
export const keptMs = 24 * 3_600_000;

/** How many runs of abandoned jobs are looked at in one go. */
export const maxChecks = 500;

/** How long runs that end with their session may clean up. */
export const cleanupMs = 300_000;

// A run that takes long to stop is looked at less and less often.
const minCheckMs = 1_000;
const maxCheckMs = 60_000;

/** When to see whether the run of an abandoned job is over. */
export function nextCheckAt(abandonedAt: number, now: number): number {
  return now + Math.min(Math.max(now - abandonedAt, minCheckMs), maxCheckMs);
}

/** When to see whether what is left of the jobs of an ended session is gone. */
export function nextRemovalAt(now: number): number {
  return now + maxCheckMs;
}

/** What becomes of a wish that a session end. */
export function planShutdown(
  state: SessionState,
  mode: ShutdownSession['mode'],
): Exclude<ShutdownResult['kind'], 'missing'> {
  if (state === 'ended') return 'repeated';
  if (mode === 'forceful') return state === 'closing' ? 'repeated' : 'accepted';
  if (state === 'closing') return 'downgrade';
  return state === 'draining' ? 'repeated' : 'accepted';
}

const reasons: Readonly<Record<SessionEnd, string>> = {
  shutdown: 'its session was shut down',
  goodbye: 'its session was closed',
  expired: 'the lease of its session ran out',
};

/** The reason that is on record with the runs of a session that ends. */
export function reasonFor(end: SessionEnd | null): string {
  return reasons[end ?? 'shutdown'];
}
