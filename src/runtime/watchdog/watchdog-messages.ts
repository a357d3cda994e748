import { platformFailure, type Failure } from '../../model/failures/failure.ts';
import type { Reopening } from '../../providers/contract/provider.ts';
import type { LoopHold } from './loop-holder.ts';

/** A worker of the process, as the watchdog's thread knows it. */
export interface WatchedWorker {
  readonly id: number;
  readonly name: string;
  readonly buildId: string;
  readonly orchestrationLeaseMs: number;
  readonly activityLeaseMs: number;
  /** Absent: the thread cannot reach the store, and only logs. */
  readonly reopening: Reopening | undefined;
  /** Absent: the process is never ended. */
  readonly exitAfterMs: number | undefined;
}

/** What became of a claim whose code blocked the event loop longer than its lease. */
export type BlockAction = 'heldBack' | 'failed' | 'none';

/** A time in which the event loop was blocked. */
export interface Blockage {
  readonly blockedMs: number;
  readonly hold: LoopHold | undefined;
  readonly stack: string | undefined;
  readonly action: BlockAction;
}

/** What the worker's thread sends to the watchdog's. */
export type ToWatchdog =
  | { readonly kind: 'watch'; readonly worker: WatchedWorker }
  | { readonly kind: 'unwatch'; readonly id: number }
  | { readonly kind: 'pong' };

/** What the watchdog's thread sends to the worker's. */
export type FromWatchdog = { readonly kind: 'ping' } | ({ readonly kind: 'over' } & Blockage);

/** What the function in `describeProperty` returns, as JSON. */
export interface HoldDescription {
  readonly hold: LoopHold | null;
  /** A debugger may be attached: the event loop may stand at a breakpoint. */
  readonly isDebugged: boolean;
}

/** The property of `globalThis` that describes what holds the event loop. */
export const describeProperty = 'perdure.describeHold';

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
