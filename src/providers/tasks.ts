import type { Payload } from '../model/payload.ts';

/** A task run to be created: an instance with one work item and no orchestration. */
export interface NewTask {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly name: string;
  /** Hash of the canonical input: the same id with the same name and hash is the same run. */
  readonly inputHash: string;
  readonly payload: Payload | null;
  /** Opaque to the store: what the worker needs besides the input, the headers among it. */
  readonly options: string | null;
  /** Higher first, then first in; a whole number from -100 to 100. */
  readonly priority: number;
  /** When it may start. Absent: now, by the store's clock. */
  readonly runAt?: number;
  /** If it has not started by then, it ends as `expired`. */
  readonly expiresAt?: number;
  /** At most one active run of this name has this key; held until the handler has stopped. */
  readonly concurrencyKey?: string;
  /** What runs after the run has failed for good; it has its own attempts. Opaque, as `options`. */
  readonly onFail?: { readonly options: string | null };
}

/** What became of one task; nothing is half-created. */
export type CreateTaskResult =
  | { readonly kind: 'created'; readonly instanceKey: number }
  /** This very run was created before. */
  | { readonly kind: 'exists' }
  /** The id belongs to another name or input. */
  | { readonly kind: 'conflict'; readonly name: string }
  /** An active run holds the concurrency key. */
  | { readonly kind: 'active'; readonly instanceId: string }
  /** The store could not take this one; its neighbours are not affected. */
  | { readonly kind: 'refused'; readonly error: Error };

/** How far the handler for failures of a run has come. */
export type OnFailState = 'queued' | 'running' | 'completed' | 'failed';

/**
 * Task runs. They are instances: reading, listing, waiting, cancelling, terminating, deleting and retention are those
 * of all instances. Their items are claimed, renewed, retried and handed back as activities are, by `fetchWorkItems`
 * with `tasks`, and settled by `ackWorkItems`.
 *
 * A provider must:
 * - show a run as `pending` until its first claim, `running` from then on, also between attempts
 * - hand out the items of the highest priority first, then the longest visible; the cost of a claim does not depend on
 *   how many wait, are delayed or have another name
 * - at the ack of a run's item, in one transaction: delete the item, set the run's terminal state and output or
 *   failure, free its key, tell `finished`; and with `onFail`, after a failure, enqueue the handler's item
 * - discard the outcome of an item that is flagged, and end the run as `canceled`, unless it is past its point of no return
 * - at the ack of an on-fail item: record its state, and leave the run as it is; it can be claimed and retried as any
 *   item, is not touched by cancel, and is gone with the instance
 * - end a pending run as `canceled` at a cancel at once, also between attempts: its item goes, its key is free; make a
 *   run whose item is held `canceling`, and `canceled` when the item is settled by anyone
 * - end a run that has not started by `expiresAt` as `expired`, at the latest when it would be claimed, and within a
 *   second while any worker waits in `fetchWorkItems`; never one that has started
 */
export interface TaskStore {
  /**
   * Creates task runs.
   *
   * A provider must, per task:
   * - insert the row and the item together
   * - answer `exists`, `conflict` or `active`, changing nothing; concurrent creations with one key have one winner, and
   *   the others are told its id
   * - free the key only when no item of the run is left
   * - keep one bad task from spoiling its neighbours
   */
  createTasks(tasks: readonly NewTask[]): Promise<readonly CreateTaskResult[]>;
}
