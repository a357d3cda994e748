import type { Payload } from '../../model/values/payload.ts';

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
  /** Instead of `runAt`: it may start this long after its creation. */
  readonly delayMs?: number;
  /** If it has not started by then, it ends as `expired`. */
  readonly expiresAt?: number;
  /** Instead of `expiresAt`: if it has not started this long after it may start, it ends as `expired`. */
  readonly expiresInMs?: number;
  /** At most one active run of this name has this key; held until the handler has stopped. */
  readonly dedupeKey?: string;
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
  /** An active run holds the dedupe key. */
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
 *   (task-claim/makes-a-run-running)
 * - claim only runs in `tasks`, at their time; treat their items as activities otherwise
 *   (task-claim/only-named-tasks, task-claim/waits-for-its-time, task-claim/a-time-that-has-passed-is-now,
 *   task-claim/a-new-run-ends-a-wait, task-claim/a-lost-worker-is-replaced, task-claim/goes-on-as-activities-do)
 * - hand out the items of the highest priority first, of all names, then the longest visible; the cost of a claim
 *   does not depend on how many wait, are delayed or have another name (priority/higher-first-then-first-in,
 *   priority/counts-within-a-batch, priority/counts-across-names,
 *   priority/what-cannot-be-claimed-does-not-stand-in-the-way, priority/stays-over-attempts)
 * - at the ack of a run's item, in one transaction: delete the item, set the run's terminal state and output or
 *   failure, free its key, tell `finished`, and answer how it `ended` (task-ack/completes-a-run,
 *   task-ack/fails-a-run, task-ack/skips-a-run, task-ack/a-handler-may-cancel-its-run, task-ack/leaves-others-alone)
 * - count on the record the attempts that failed (task-ack/counts-failures-over-attempts)
 * - answer `LOCK_LOST` for a token that is not held, changing nothing, and keep one bad ack from spoiling its
 *   neighbours (task-ack/needs-a-held-item, task-ack/needs-the-current-token,
 *   task-ack/an-unreadable-failure-spares-its-neighbours)
 * - discard the outcome of an item that is flagged, and end the run as `canceled`, unless it is past its point of no
 *   return (task-ack/of-a-flagged-run-is-discarded, task-ack/past-the-point-of-no-return-counts,
 *   task-cancel/a-handed-back-run-ends-instead)
 * - end a run whose item nobody holds as `canceled` at a cancel at once, waiting or between attempts: its item goes,
 *   its key is free (task-cancel/a-queued-run-ends-at-once, task-cancel/between-attempts-ends-at-once,
 *   task-cancel/of-a-lost-worker-ends-at-once)
 * - make a run whose item is held `canceling`, and `canceled` when the item is settled by anyone
 *   (task-cancel/a-held-run-is-canceling, task-cancel/a-lost-worker-does-not-hold-it)
 * - keep the first request, and one terminal state whatever comes at once
 *   (task-cancel/the-first-request-is-kept, task-cancel/races-have-one-winner)
 * - end a terminated run at once, without an event, and settle its item without a word
 *   (task-terminate/ends-at-once, task-terminate/a-canceling-run-keeps-its-request)
 * - end a run that has not been claimed by `expiresAt` as `expired`, at the latest when it would be claimed, and
 *   within a second while any worker waits in `fetchWorkItems` (expiry/ends-what-has-not-started,
 *   expiry/needs-no-worker-that-knows-it, expiry/wakes-who-waits, expiry/comes-before-its-time-to-run,
 *   expiry/none-of-many-is-claimed-too-late)
 * - never expire a run that has started or is over; one whose claim was handed back `unstarted` has not, unless it was
 *   asked to stop meanwhile (expiry/spares-what-has-started, expiry/leaves-what-is-over,
 *   expiry/goes-on-for-what-is-handed-back-unstarted, expiry/spares-what-was-asked-to-stop)
 * - after a failure, in the same transaction, enqueue the item of the handler for failures, if the run was created with
 *   one or the ack brings one: of the run's name and input, of the highest priority, with the failure; it never follows
 *   another end (on-fail/follows-a-failure, on-fail/only-after-a-failure, on-fail/may-come-with-the-ack,
 *   on-fail/goes-to-workers-that-know-its-task, on-fail/a-late-failure-queues-none)
 * - let that item be claimed and retried as any, not be touched by cancel or terminate, and at its ack record its
 *   state and leave the run as it is (on-fail/has-its-own-attempts, on-fail/survives-a-lost-worker,
 *   on-fail/its-own-failure-is-kept, on-fail/is-not-stopped)
 * - delete a run with its item, handler and key; without force only once its handler for failures is done
 *   (task-delete/takes-everything-with-it, task-delete/what-is-over-can-be-deleted,
 *   on-fail/keeps-its-run-from-deletion)
 * - count runs apart from activities in `queueDepths` (task-claim/figures-keep-tasks-apart)
 */
export interface TaskStore {
  /**
   * Creates task runs.
   *
   * A provider must, per task:
   * - insert the row and the item together; there is no message, no turn and no history
   *   (task-create/inserts-a-pending-run, task-create/enqueues-the-item-with-the-row, task-create/needs-no-turn,
   *   task-create/nobody-reads-its-messages, task-create/text-is-only-text)
   * - answer `exists` or `conflict` for an id that is taken, by an orchestration too, changing nothing
   *   (task-create/the-same-task-exists, task-create/another-name-or-input-conflicts,
   *   task-create/ids-are-shared-with-orchestrations, key/a-known-id-comes-first)
   * - answer `active` for a key that a run of the name has, changing nothing; concurrent creations with one key have
   *   one winner, and the others are told its id (key/names-the-active-run, key/belongs-to-its-name,
   *   key/concurrent-creations-have-one-winner, shared/one-key-has-one-run)
   * - free the key when the run's own item is gone, and not before: not at a cancel or terminate while the item is
   *   held; the handler for failures has no key (key/is-free-after-every-end, key/is-held-while-canceling,
   *   key/is-held-after-a-terminate, key/is-held-between-attempts, key/is-not-held-by-the-handler-for-failures)
   * - count `delayMs` and `expiresInMs` from its own clock in the transaction that creates the run, whatever the caller
   *   believes the time to be (task-create/counts-a-delay-by-its-own-clock,
   *   task-create/counts-an-expiry-from-when-it-may-start)
   * - refuse a priority beyond the limits, and keep one bad task from spoiling its neighbours
   *   (task-create/a-bad-one-spares-its-neighbours, task-create/repeats-within-a-batch,
   *   task-create/a-thousand-at-once)
   */
  createTasks(tasks: readonly NewTask[]): Promise<readonly CreateTaskResult[]>;
}
