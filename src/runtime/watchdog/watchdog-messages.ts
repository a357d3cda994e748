import type { Reopening } from '../../providers/contract/provider.ts';
import type { LoopHold } from './loop-holder.ts';

/** A worker of the process, as registered with the watchdog thread. */
export interface WatchedWorker {
  readonly id: number;
  readonly name: string;
  readonly buildId: string;
  readonly orchestrationLeaseMs: number;
  readonly activityLeaseMs: number;
  /** Absent: the thread cannot open the store, and only logs. */
  readonly reopening: Reopening | undefined;
  /** Absent: the process is never killed. */
  readonly exitAfterMs: number | undefined;
}

/** The action on a claim whose code blocked the event loop past its lease. */
export type BlockAction = 'blocked' | 'failed' | 'none';

/** A period in which the event loop was blocked. */
export interface Blockage {
  readonly blockedMs: number;
  readonly hold: LoopHold | undefined;
  readonly stack: string | undefined;
  readonly action: BlockAction;
}

/** Messages from the worker's thread to the watchdog's. */
export type ToWatchdog =
  | { readonly kind: 'watch'; readonly worker: WatchedWorker }
  | { readonly kind: 'unwatch'; readonly id: number }
  | { readonly kind: 'pong' };

/** Messages from the watchdog's thread to the worker's. */
export type FromWatchdog = { readonly kind: 'ping' } | ({ readonly kind: 'ended' } & Blockage);

/** The JSON that the function in `describeProperty` returns. */
export interface HoldDescription {
  readonly hold: LoopHold | null;
  /** Whether a debugger may be attached, so that the event loop may stand at a breakpoint. */
  readonly isDebugged: boolean;
}

/** The symbol property of `globalThis` that describes the code on the event loop. */
export const describeProperty = 'perdure.describeHold';
