import type { CancelTrigger } from '../model/errors.ts';
import type { InstanceStatus } from '../model/status.ts';
import type { CancelInfo } from './work-queue.ts';

/** Asks an instance to stop. */
export interface CancelInstance {
  readonly instanceId: string;
  readonly reason: string;
  readonly actor: string | null;
  /** How long the code may clean up before the instance is ended without it. */
  readonly cleanupMs: number;
}

/** Ends an instance at once. */
export interface TerminateInstance {
  readonly instanceId: string;
  readonly reason: string;
  readonly actor: string | null;
  /** Also terminate its children, and theirs; otherwise they are asked to stop. */
  readonly tree: boolean;
  /** How long children that are asked to stop may clean up. Default 5 minutes. */
  readonly cleanupMs?: number;
}

/** What became of a request: never an error for an instance that is unknown or over. */
export interface StopResult {
  readonly found: boolean;
  /** Whether this request changed anything: the first one does. */
  readonly changed: boolean;
  readonly status: InstanceStatus | null;
}

/** Whether a handler may go past the point from which it can no longer be stopped. */
export type PointOfNoReturn =
  | { readonly kind: 'passed' }
  | { readonly kind: 'canceled'; readonly cancel: CancelInfo }
  | { readonly kind: 'lost' };

/** An activity that a worker holds. */
export interface RunningItem {
  readonly operation: number;
  readonly name: string;
  readonly attempt: number;
  readonly lockedUntil: number;
  readonly cancel: { readonly reason: string; readonly trigger: CancelTrigger } | null;
}

/** Stops instances, without a turn and without a worker that knows their code. */
export interface CancellationStore {
  /**
   * Asks instances to stop, each in one transaction, at once.
   *
   * A provider must, per instance:
   * - answer `found: false` for an unknown one, `changed: false` for one that is canceling or over
   * - end a pending one as `canceled`: its start message goes, its history is the one `executionCanceled`, its parent is told
   * - make a running one `canceling`, and keep the first reason, actor and time
   * - flag its claimed items and remove the unclaimed ones (queued, or between retries) with an `activityCanceled` message for each
   * - leave items that were scheduled in a shield or as `abandon`, or that are past their point of no return
   * - enqueue the `cancel` message at once and the `cleanupExpired` message after `cleanupMs`, and lift a hold-back
   * - let anyone claim the instance once its clean-up has expired, whatever they have registered
   */
  requestCancel(requests: readonly CancelInstance[]): Promise<readonly StopResult[]>;

  /**
   * Ends instances, each in one transaction, at once; no code of theirs runs any more.
   *
   * A provider must, per instance:
   * - answer `found: false` for an unknown one, `changed: false` for one that is over
   * - make it `terminated`, with `executionTerminated` as the last event of its history
   * - remove its messages, timers, lock and unclaimed items, and flag the claimed ones, shielded or not
   * - tell its parent that it failed with `INSTANCE_TERMINATED`
   * - ask its children to stop, or terminate them with `tree`; leave those that were started as `abandon`
   */
  terminate(requests: readonly TerminateInstance[]): Promise<readonly StopResult[]>;

  /**
   * Marks an item as past the point of no return.
   *
   * A provider must:
   * - answer `canceled` when a cancel was requested before, `lost` when the token is not held, changing nothing
   * - keep the mark over attempts, and from then on record cancel requests without delivering them
   */
  markPointOfNoReturn(lockToken: string): Promise<PointOfNoReturn>;

  /** Lists the activities of an instance that a worker holds; empty for an unknown one. */
  listRunningItems(instanceId: string): Promise<readonly RunningItem[]>;
}
