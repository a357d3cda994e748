import { platformFailure, type Failure } from '../../model/failures/failure.ts';

/** States that code kept the event loop for longer than the lease under which it ran. */
export function blockedFailure(what: string, blockedMs: number, leaseMs: number): Failure {
  return platformFailure('EVENT_LOOP_BLOCKED', describeBlock(what, blockedMs, leaseMs));
}

/** The sentences about a block, for failures and for instances that are held back. */
export function describeBlock(what: string, blockedMs: number, leaseMs: number): string {
  const subject = what.charAt(0).toUpperCase() + what.slice(1);
  return `${subject} blocked the event loop for ${seconds(blockedMs)}, longer than its lease of ${seconds(leaseMs)}. Split the work with \`await\`, move it to an isolated handler, or raise the lease.`;
}

function seconds(ms: number): string {
  return ms % 1_000 === 0 ? `${ms / 1_000} s` : `${(ms / 1_000).toFixed(1)} s`;
}
