/** How sessions and their jobs end, for both stores. */
import type {
  SessionEnd,
  SessionState,
  ShutdownResult,
  ShutdownSession,
} from '../contract/sessions.ts';

/** A change of the state of a session. */
export interface SessionMove {
  readonly sessionKey: number;
  readonly state: SessionState;
  readonly end: SessionEnd | null;
  readonly dueAt: number;
}

/** How long a due session is reserved for the worker that fetched it. */
export const dueSessionReservedMs = 5_000;

/** Delay before the next settlement of a session that has not ended. */
export const settleEveryMs = 1_000;

/** How long an ended session stays readable. */
export const endedSessionKeptMs = 24 * 3_600_000;

/** Maximum runs of abandoned jobs to check per call. */
export const maxAbandonedJobChecks = 500;

/** Clean-up limit of runs that are canceled because their session ends. */
export const sessionEndCleanupMs = 300_000;

// The longer a run takes to stop, the less often it is checked.
const minCheckMs = 1_000;
const maxCheckMs = 60_000;

/** When to check next whether the run of an abandoned job has ended. */
export function nextCheckAt(abandonedAt: number, now: number): number {
  return now + Math.min(Math.max(now - abandonedAt, minCheckMs), maxCheckMs);
}

/** When to check next whether the jobs of an ended session are gone. */
export function nextRemovalAt(now: number): number {
  return now + maxCheckMs;
}

/** Decides what a shutdown request does to a session. */
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

/** The cancel reason of runs whose session ends. */
export function reasonFor(end: SessionEnd | null): string {
  return reasons[end ?? 'shutdown'];
}
