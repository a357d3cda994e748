import { platformFailure, type Failure } from '../../model/failures/failure.ts';

/** The failure of a handler that blocked the event loop past its lease. */
export function blockedFailure(what: string, blockedMs: number, leaseMs: number): Failure {
  return platformFailure('EVENT_LOOP_BLOCKED', describeBlock(what, blockedMs, leaseMs));
}

/** Describes a blocked event loop, for failures and for blocked instances. */
export function describeBlock(what: string, blockedMs: number, leaseMs: number): string {
  const subject = what.charAt(0).toUpperCase() + what.slice(1);
  return `${subject} blocked the event loop for ${seconds(blockedMs)}, longer than its lease of ${seconds(leaseMs)}. Split the work with \`await\`, move it to an isolated handler, or raise the lease.`;
}

function seconds(ms: number): string {
  return ms % 1_000 === 0 ? `${ms / 1_000} s` : `${(ms / 1_000).toFixed(1)} s`;
}
