import type { Debounce } from '../../model/admission-options.ts';
import type { ConflictPlan } from '../../model/admission-options.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { Tags } from '../../model/values/tags.ts';
import type { Lane } from './limits.ts';

/** A task run to create: an instance with one work item and no orchestration. */
export interface NewTask {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly name: string;
  /** Hash of the canonical input. A task with the same id, name and hash is a repeat. */
  readonly inputHash: string;
  readonly payload: Payload | null;
  /** Opaque to the store: what the worker needs in addition to the input, including the headers. */
  readonly options: string | null;
  /** Higher first, then first in. An integer from -100 to 100. */
  readonly priority: number;
  /** When it may start. Absent: now, by the store's clock. */
  readonly runAt?: number;
  /** Instead of `runAt`: delay from its creation. */
  readonly delayMs?: number;
  /** If it has not started by then, it ends as `expired`. */
  readonly expiresAt?: number;
  /** Instead of `expiresAt`: how long after its earliest start it expires if it has not started. */
  readonly expiresInMs?: number;
  /** At most one active run of this name has this key. Held until the handler has stopped. */
  readonly dedupeKey?: string;
  /** With `dedupeKey`: how long from its creation the run is returned to others with this option, also after its end. */
  readonly dedupeMs?: number;
  /** Moves the run of this name with this key that has not started. Its `delayMs` is the wait. */
  readonly debounce?: Debounce;
  /** The handler that runs after the run has failed, with its own attempts. Opaque, like `options`. */
  readonly onFail?: { readonly options: string | null };
  readonly tags?: Tags;
  /** What happens if the id belongs to a run of this name with another input. Absent: `conflict`. */
  readonly onConflict?: ConflictPlan;
  /** How long the run may take from its earliest start, over all attempts. Then it is canceled. */
  readonly timeoutMs?: number;
  /** Repeats a call with this incarnation whose outcome is unknown. */
  readonly isRepeat?: boolean;
  /** Its key and weight. The definition becomes limited, if only for fairness. Absent: no key. */
  readonly lane?: Lane;
}

/** The result of one task. None is created partially. */
export type CreateTaskResult =
  | { readonly kind: 'created'; readonly instanceKey: number }
  /** A repeat of the same task. */
  | { readonly kind: 'exists' }
  /** The id belongs to another name or input. */
  | { readonly kind: 'conflict'; readonly name: string }
  /** An active run holds the dedupe key, a run was created within its window, or a debounced run was moved. */
  | { readonly kind: 'active'; readonly instanceId: string }
  /** The store rejected this one. Other items are not affected. */
  | { readonly kind: 'refused'; readonly error: Error };

/** The state of a run's `onFail` handler. */
export type OnFailState = 'queued' | 'running' | 'completed' | 'failed';

/**
 * Task runs. They are instances, and are read, listed, awaited, canceled, terminated and deleted like all instances.
 * Their items are claimed by `fetchWorkItems` with `tasks`, renewed, retried and handed back like activities, and settled
 * by `ackWorkItems`.
 *
 * A provider must:
 * - show a run as `pending` until its first claim and `running` from then on, also between attempts
 *   (task-claim/makes-a-run-running)
 * - claim only runs in `tasks`, not before their time; treat their items like activities otherwise
 *   (task-claim/only-named-tasks, task-claim/waits-for-its-time, task-claim/a-time-that-has-passed-is-now,
 *   task-claim/a-new-run-ends-a-wait, task-claim/a-lost-worker-is-replaced, task-claim/goes-on-as-activities-do)
 * - return the items of the highest priority first, across names, then the longest visible; the cost of a claim does
 *   not depend on how many are queued, delayed or have another name (priority/higher-first-then-first-in,
 *   priority/counts-within-a-batch, priority/counts-across-names,
 *   priority/what-cannot-be-claimed-does-not-stand-in-the-way, priority/stays-over-attempts)
 * - at the ack of a run's item, in one transaction: delete the item, set the run's terminal state and output or
 *   failure, free its key, send `finished`, and return the status as `ended` (task-ack/completes-a-run,
 *   task-ack/fails-a-run, task-ack/skips-a-run, task-ack/a-handler-may-cancel-its-run, task-ack/leaves-others-alone)
 * - count failed attempts in the record (task-ack/counts-failures-over-attempts)
 * - return `LOCK_LOST` for a token that is not held, changing nothing, and isolate errors: one bad ack does not
 *   affect the others (task-ack/needs-a-held-item, task-ack/needs-the-current-token,
 *   task-ack/an-unreadable-failure-spares-its-neighbours)
 * - discard the outcome of a flagged item and end the run as `canceled`, unless it is past its point of no return
 *   (task-ack/of-a-flagged-run-is-discarded, task-ack/past-the-point-of-no-return-counts,
 *   task-cancel/a-handed-back-run-ends-instead)
 * - on a cancel, immediately end a run whose item no worker holds as `canceled`, queued or between attempts: delete
 *   its item and free its key (task-cancel/a-queued-run-ends-at-once, task-cancel/between-attempts-ends-at-once,
 *   task-cancel/of-a-lost-worker-ends-at-once)
 * - make a run whose item is held `canceling`, and `canceled` when any worker settles the item
 *   (task-cancel/a-held-run-is-canceling, task-cancel/a-lost-worker-does-not-hold-it)
 * - keep the first request, and exactly one terminal state under concurrent operations
 *   (task-cancel/the-first-request-is-kept, task-cancel/races-have-one-winner)
 * - end a terminated run immediately, without an event, and settle its item without a message
 *   (task-terminate/ends-at-once, task-terminate/a-canceling-run-keeps-its-request)
 * - end a run that was not claimed by `expiresAt` as `expired`, at the latest when it would be claimed, and within a
 *   second while any worker waits in `fetchWorkItems` (expiry/ends-what-has-not-started,
 *   expiry/needs-no-worker-that-knows-it, expiry/wakes-who-waits, expiry/comes-before-its-time-to-run,
 *   expiry/none-of-many-is-claimed-too-late)
 * - never expire a run that has started or ended; a run handed back `unstarted` has not started, unless it was asked
 *   to stop meanwhile (expiry/spares-what-has-started, expiry/leaves-what-is-over,
 *   expiry/goes-on-for-what-is-handed-back-unstarted, expiry/spares-what-was-asked-to-stop)
 * - after a failure, in the same transaction, enqueue the item of the `onFail` handler, if the run was created with
 *   one or the ack has one: with the run's name, input and failure, and the highest priority; never after another end
 *   (on-fail/follows-a-failure, on-fail/only-after-a-failure, on-fail/may-come-with-the-ack,
 *   on-fail/goes-to-workers-that-know-its-task, on-fail/a-late-failure-queues-none)
 * - claim and retry that item like any other, do not change it by cancel or terminate, and at its ack record its
 *   state and leave the run unchanged (on-fail/has-its-own-attempts, on-fail/survives-a-lost-worker,
 *   on-fail/its-own-failure-is-kept, on-fail/is-not-stopped)
 * - delete a run with its item, handler and key; without `force` only after its `onFail` handler has finished
 *   (task-delete/takes-everything-with-it, task-delete/what-is-over-can-be-deleted,
 *   on-fail/keeps-its-run-from-deletion)
 * - count runs separately from activities in `queueDepths` (task-claim/figures-keep-tasks-apart)
 */
export interface TaskStore {
  /**
   * Creates task runs.
   *
   * A provider must, per task:
   * - insert the row and the item together, without a message, a turn or a history
   *   (task-create/inserts-a-pending-run, task-create/enqueues-the-item-with-the-row, task-create/needs-no-turn,
   *   task-create/has-no-messages, task-create/text-is-only-text)
   * - return `exists` or `conflict` for an id that is taken, also by an orchestration, changing nothing
   *   (task-create/the-same-task-exists, task-create/another-name-or-input-conflicts,
   *   task-create/ids-are-shared-with-orchestrations, key/a-known-id-comes-first)
   * - with `useExisting`, return `exists` for another input (task-conflict/uses-the-existing)
   * - with `terminateExisting`, in one transaction: terminate the live run, delete its item, free its dedupe key, archive
   *   its execution, and queue the next one with the new input, options, tags and timeout; a repeat with the same
   *   incarnation is `exists` (task-conflict/replaces-a-queued-run, task-conflict/replaces-a-held-run,
   *   task-conflict/replaces-an-ended-run, task-conflict/a-repeat-replaces-nothing)
   * - return `conflict`, changing nothing, for another name or kind, for a job, and for a run whose `onFail` handler has not
   *   finished (task-conflict/another-name-stays, task-conflict/waits-for-the-handler-of-failures)
   * - return `active` for a key that a run of the name holds, changing nothing; concurrent creations with one key
   *   have one winner, and the others return its id (key/names-the-active-run, key/belongs-to-its-name,
   *   key/concurrent-creations-have-one-winner, shared/one-key-has-one-run)
   * - free the key when the run's own item is deleted, and not before: not at a cancel or terminate while the item is
   *   held; the `onFail` handler has no key (key/is-free-after-every-end, key/is-held-while-canceling,
   *   key/is-held-after-a-terminate, key/is-held-between-attempts, key/is-not-held-by-the-handler-for-failures)
   * - with `dedupeMs`, also return `active` for a run that was created with the key and `dedupeMs`, whatever its status,
   *   until its window has passed; other starts ignore windows (window/names-the-ended-run,
   *   window/an-active-run-comes-first, window/belongs-to-starts-with-one, window/a-known-id-comes-first,
   *   window/is-deleted-with-its-run, shared/one-window-has-one-run)
   * - with `debounce`, in one transaction: if a run of the name with the key exists that no worker has claimed, and that
   *   was never retried, move it to `delayMs` from now, at most `maxWaitMs` after its creation, replace its input, input
   *   hash, options, priority, expiry, handler, tags and timeout, and return `active`; create the run otherwise. Its id,
   *   creation time and pause stay (debounce/moves-a-run-that-has-not-started, debounce/replaces-the-options-of-a-task,
   *   debounce/stops-at-its-max-wait, debounce/a-started-run-stays, debounce/a-retried-run-stays,
   *   debounce/replaces-the-timeout, debounce/keeps-a-pause, debounce/belongs-to-its-name, debounce/a-batch-is-in-order)
   * - return `active`, changing nothing, for the request key of the newest start of a debounced run
   *   (debounce/a-repeated-request-changes-nothing)
   * - never lose the input of a debounced start: concurrent starts have one run, and a claim gets the old input before
   *   the move or the new one after it (shared/one-debounce-key-has-one-run,
   *   shared/a-claim-and-a-move-exclude-each-other)
   * - compute `delayMs` and `expiresInMs` from its own clock in the transaction that creates the run, regardless of
   *   the caller's clock (task-create/counts-a-delay-by-its-own-clock,
   *   task-create/counts-an-expiry-from-when-it-may-start)
   * - reject a priority out of range, and isolate errors: one bad task does not affect the others
   *   (task-create/a-bad-one-spares-its-neighbours, task-create/repeats-within-a-batch,
   *   task-create/a-thousand-at-once)
   * - treat `isRepeat` as `createInstances` does (repeat/of-a-deleted-task)
   * - accept 10,000 tasks, and claim those of one call in list order. It may create them in several transactions, about
   *   1,000 runs each: workers run the first ones meanwhile (task-create/thousands-keep-their-order)
   */
  createTasks(tasks: readonly NewTask[]): Promise<readonly CreateTaskResult[]>;
}
