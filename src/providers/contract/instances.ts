import type { Debounce } from '../../model/admission-options.ts';
import type { CancelRequest } from '../../model/cancel.ts';
import type { StoredEvent } from '../../model/event.ts';
import type { StoredMessage } from '../../model/message.ts';
import type { ConflictPlan } from '../../model/admission-options.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { Tags } from '../../model/values/tags.ts';
import type { ExecutionStatus, InstanceStatus } from '../../model/status.ts';
import type { Lane } from './limits.ts';
import type { AuditEntry } from './management.ts';
import type { Withheld } from './page-bytes.ts';
import type { Pause } from './pausing.ts';
import type { OnFailState } from './tasks.ts';
import type { ClaimedAtInsert, Turn } from './turn.ts';

/** An instance to create. */
export interface NewInstance {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly name: string;
  readonly version: string | null;
  /** Hash of the canonical input. A start with the same id, name and hash is a repeat. */
  readonly inputHash: string;
  readonly start: StoredMessage;
  /** Not part of the input hash. */
  readonly tags?: Tags;
  /** The key and weight under which the instance waits if its orchestration is limited. */
  readonly lane?: Lane;
  /** The trace context of the start, as JSON text. Opaque to the store; not part of the input hash and the history. */
  readonly headers?: string;
  /** How long the instance may take from when it may start. Then it is canceled with the trigger `timeout`. */
  readonly timeoutMs?: number;
  /** Delay from its creation, by the store's clock. Excludes `firstTurn`. */
  readonly delayMs?: number;
  /** Instead of `delayMs`: when it may start. */
  readonly runAt?: number;
  /** At most one live instance of this name has this key. */
  readonly dedupeKey?: string;
  /** With `dedupeKey`: how long from its creation the instance is returned to others with this option, also after its end. */
  readonly dedupeMs?: number;
  /** Moves the instance of this name with this key that has not started. Its `delayMs` is the wait. */
  readonly debounce?: Debounce;
  /** Enqueued with the start, or at the live instance of this name that has the id or the dedupe key. */
  readonly event?: Omit<NewMessage, 'instanceId'>;
  /** What happens if the id belongs to an instance of this name with another input. Absent: `conflict`. */
  readonly onConflict?: ConflictPlan;
  /** Repeats a call with this incarnation whose outcome is unknown. */
  readonly isRepeat?: boolean;
  /** The first turn, already run. Its events replace the start message (fast path). */
  readonly firstTurn?: Turn;
}

/** `exists`: a repeat of the same start. `conflict`: the id belongs to another name or input. */
export type CreateResult =
  | {
      readonly kind: 'created';
      readonly instanceKey: number;
      readonly claimed: readonly ClaimedAtInsert[];
      /** The definition is paused: the start message was stored instead of the first turn. */
      readonly withoutTurn?: true;
    }
  /** `event`: the result of the event at the existing instance. */
  | { readonly kind: 'exists'; readonly event?: EnqueueResult }
  | { readonly kind: 'conflict'; readonly name: string }
  /** A live instance holds the dedupe key, one was created within its window, or a debounced one was moved. */
  | { readonly kind: 'active'; readonly instanceId: string; readonly event?: EnqueueResult }
  /** The store rejected this one. Nothing of it was written, and other items are not affected. */
  | { readonly kind: 'refused'; readonly error: Error };

/** A message to an instance. */
export interface NewMessage {
  readonly instanceId: string;
  readonly message: StoredMessage;
  /** Reject if this many messages of the kind are pending, in the queue or (external events) in the code. */
  readonly maxPending?: number;
  /** A message with a key that this instance has already got is `repeated`. */
  readonly key?: string;
  /** The bulk operation that sends the message. Absent: none. */
  readonly bulk?: BulkMessage;
}

/** A message of a bulk operation, which visits instances from the newest to the oldest. */
export interface BulkMessage {
  /** Recorded in the same transaction if the message is enqueued. */
  readonly audit: AuditEntry;
  /** The key of the receiver. An instance with another key is `missing`. */
  readonly instanceKey: number;
}

/**
 * The result of a message: enqueued, or rejected because the instance is missing, has ended or has too many messages.
 * `repeated`: the instance has got a message with the key before, or the bulk operation has already visited it.
 */
export type EnqueueResult = 'enqueued' | 'missing' | 'over' | 'full' | 'repeated';

/** An instance as read from its row, without its history. */
export interface InstanceRecord extends Withheld {
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly incarnation: string;
  readonly kind: 'orchestration' | 'task';
  readonly name: string;
  readonly version: string | null;
  readonly status: InstanceStatus;
  readonly executionId: number;
  readonly parentInstanceId: string | null;
  readonly output: Payload | null;
  /** A `Failure` as JSON text. */
  readonly failure: string | null;
  readonly customStatus: Payload | null;
  /** How often the custom status was set. */
  readonly customStatusVersion: number;
  readonly createdAt: number;
  /** When it may start, if it was delayed or debounced. */
  readonly runAt: number | null;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  /** The first cancel request. */
  readonly cancel: CancelRequest | null;
  /** Whether it was canceled before its clean-up had finished. */
  readonly cleanupSkipped: boolean;
  /** Handlers that still ran after their grace. */
  readonly leaked: number;
  /** Why and by whom it was terminated. */
  readonly terminated: { readonly reason: string; readonly actor: string | null } | null;
  readonly tags: Tags;
  /** Why it is blocked, since when, and by which build. */
  readonly blocked: BlockedRecord | null;
  /** Where a fork was copied from, as JSON text. `null`: not a fork. */
  readonly forkedFrom: string | null;
  /** The pause of this instance. A pause of its definition is not included. */
  readonly paused: Pause | null;
  /** The fields of a task run. `null` for an orchestration. */
  readonly task: TaskRecord | null;
}

/** Why an instance is blocked, as stored. */
export interface BlockedRecord {
  readonly reason: string;
  readonly at: number;
  readonly buildId: string;
  /** `BlockedDetails` as JSON text. */
  readonly details: string | null;
}

/** The fields that only task runs have. */
export interface TaskRecord {
  readonly priority: number;
  readonly input: Payload | null;
  readonly dedupeKey: string | null;
  readonly runAt: number | null;
  readonly expiresAt: number | null;
  /** The number of failed attempts. */
  readonly failures: number;
  /** The options of the task, including its headers. */
  readonly options: string | null;
  readonly onFail: OnFailState | null;
  /** The failure of the `onFail` handler: a `Failure` as JSON text. */
  readonly onFailFailure: string | null;
}

/** One execution of an instance. */
export interface ExecutionRecord {
  readonly executionId: number;
  readonly status: ExecutionStatus;
  readonly version: string | null;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  readonly historyLength: number;
  /** The `Failure` of an earlier execution that failed, as JSON text. `null` for the current one. */
  readonly failure: string | null;
  /** Why an earlier execution was canceled or terminated. `null` for the current one. */
  readonly reason: string | null;
}

/** Conditions that must all hold. Absent ones match all instances. */
export interface InstanceConditions {
  readonly status?: readonly InstanceStatus[];
  readonly kind?: 'orchestration' | 'task';
  /** One of these names. */
  readonly names?: readonly string[];
  readonly version?: string;
  readonly idPrefix?: string;
  readonly parentInstanceId?: string;
  /** Only those without a parent. */
  readonly rootsOnly?: boolean;
  readonly createdFrom?: number;
  readonly createdBefore?: number;
  readonly endedFrom?: number;
  readonly endedBefore?: number;
  /** The `code` of the failure. */
  readonly failureCode?: string;
  /** Text that the message of the failure contains. ASCII letters match in either case. */
  readonly failureText?: string;
  readonly blocked?: boolean;
  /** Whether a handler ran past its grace. */
  readonly leaked?: boolean;
  /** Whether the instance itself is paused. A pause of its definition does not count. */
  readonly paused?: boolean;
  /** Whether a turn that is due, an activity or a task run waits for a definition that no live worker has. */
  readonly unregistered?: boolean;
  /** All of these tags. */
  readonly tags?: Tags;
}

/** One page of a listing. */
export interface ListInstancesParams {
  readonly filter: InstanceConditions;
  readonly limit: number;
  /** `ended`: only instances that have ended, the last end first. Default: `created`, the newest instance first. */
  readonly orderBy?: 'created' | 'ended';
  /** Only instances with a smaller key. Pass `nextKey` of the previous page. */
  readonly beforeKey?: number;
  /**
   * With `orderBy: 'ended'`: only instances that ended earlier, or at this time with a key below `beforeKey`. Pass
   * `nextEndedAt` of the previous page.
   */
  readonly beforeEndedAt?: number;
  /** `false`: return `null` for `output`, `customStatus` and `input`. Default: `true`. */
  readonly payloads?: boolean;
  /** End the page before the entry whose payloads exceed this total, in bytes. Default: no limit. */
  readonly maxBytes?: number;
}

/** A page of a listing. */
export interface ListInstancesResult {
  readonly instances: readonly InstanceRecord[];
  /** Where the next page starts. `null` at the end of the listing. */
  readonly nextKey: number | null;
  /** With `orderBy: 'ended'`: where the next page starts, together with `nextKey`. */
  readonly nextEndedAt?: number | null;
}

/** A count of instances. */
export interface CountInstancesParams {
  readonly filter: InstanceConditions;
  /** The highest count. */
  readonly cap: number;
}

/** The result of a count. */
export interface InstanceCount {
  readonly count: number;
  /** Whether there may be more: the count is a lower bound. */
  readonly capped: boolean;
}

/** A definition of the instances in a store. */
export interface DefinitionRecord {
  readonly definitionKey: number;
  readonly kind: 'orchestration' | 'task';
  readonly name: string;
  /** `null` for a task, and while no worker has chosen a version. */
  readonly version: string | null;
  /** Instances by status; statuses without instances are absent. */
  readonly counts: Readonly<Partial<Record<InstanceStatus, InstanceCount>>>;
}

/** One page of an instance's executions. */
export interface ListExecutionsParams {
  readonly instanceId: string;
  /** The execution id after which the page starts. 0 for the first page. */
  readonly after: number;
  readonly limit: number;
}

/** Creates, reads and lists instances, and sends messages to them. */
export interface InstanceStore {
  /**
   * Creates instances with their start messages, or with their first turns.
   *
   * A provider must, per instance:
   * - insert the row and the message together (create/inserts-a-pending-row, create/enqueues-the-start-with-the-row)
   * - return `exists` for the same name and input hash and `conflict` for others, even if that instance has ended,
   *   changing nothing (create/the-same-start-exists, create/another-name-conflicts, create/another-input-conflicts,
   *   create/an-id-that-is-over-stays-taken, create/a-claimed-instance-keeps-its-claim,
   *   create/repeats-within-a-batch, create/concurrent-starts-have-one-winner,
   *   shared/starts-are-idempotent-across-processes)
   * - with a first turn, commit what `ackOrchestrationItems` would commit, and enqueue no start message
   *   (first-turn/commits-what-an-ack-commits, first-turn/enqueues-no-start, first-turn/is-the-last-turn,
   *   first-turn/reports-items-claimed-at-insert, first-turn/can-end-the-instance, first-turn/can-continue-as-new,
   *   first-turn/is-told-of-a-taken-child, first-turn/can-be-followed-by-a-turn-ack)
   * - commit nothing of a first turn whose id is taken (first-turn/of-a-taken-id-commits-nothing)
   * - store the tags with the row; a turn merges its own, they survive a continue-as-new, and a deletion deletes them
   *   (tags/come-with-the-start, tags/of-tasks-and-children, tags/a-turn-merges-them, tags/survive-continue-as-new,
   *   tags/are-deleted-with-their-instance, tags/are-not-part-of-the-start)
   * - with an `event`, in the same transaction: enqueue it with the start; if the id belongs to a live instance of the
   *   name, enqueue it there as `enqueueMessages` does, whatever the input; return `over` if that one has ended
   *   (start-event/comes-with-the-start, start-event/reaches-a-live-instance, start-event/is-refused-after-the-end,
   *   start-event/its-key-counts, start-event/concurrent-starts-have-one-instance)
   * - with `useExisting`, return `exists` for another input (conflict/uses-the-existing)
   * - with `terminateExisting`, in one transaction: terminate the live instance and its descendants, archive its
   *   execution, and start the next one with the new input, tags and timeout and without state under the same id; a repeat with the
   *   same incarnation is `exists` (conflict/replaces-a-live-instance, conflict/clears-the-state, conflict/replaces-an-ended-instance,
   *   conflict/a-repeat-replaces-nothing, conflict/ends-the-tree, conflict/replaces-an-instance-that-ends-meanwhile)
   * - return `conflict` for another name or kind, and for a child or a job that would be replaced, changing nothing
   *   (conflict/another-name-stays)
   * - with a `dedupeKey` that a live instance of the name holds, return `active`, and enqueue the event there; the key is
   *   free once its holder has ended (dedupe/names-the-live-instance, dedupe/is-free-after-the-end,
   *   dedupe/concurrent-starts-have-one-winner)
   * - treat `dedupeMs` and `debounce` as `createTasks` does; the messages of a moved instance move with its start
   *   (debounce/holds-events-back)
   * - with `delayMs` or `runAt`, make the start and all messages before it visible from then on, by the store's clock
   *   (start-delay/waits-for-its-time, start-delay/holds-events-back)
   * - with `isRepeat`, return `exists`, changing nothing, if the instance of this id and incarnation was deleted or replaced,
   *   for at least ten minutes from its start, also in a race with the deletion (repeat/a-deleted-instance-stays-deleted,
   *   repeat/a-forced-deletion-counts, repeat/a-deleted-first-turn-stays-deleted, repeat/of-a-replaced-start,
   *   repeat/is-known-for-ten-minutes, repeat/races-with-the-deletion)
   * - create the instances of other repeats and of starts that are no repeats (repeat/creates-what-was-never-created,
   *   repeat/finds-its-instance, repeat/belongs-to-its-id-and-incarnation, repeat/other-starts-are-created)
   * - isolate errors: one bad instance does not affect the others (create/a-conflict-spares-its-neighbours,
   *   create/a-refused-one-spares-its-neighbours)
   */
  createInstances(instances: readonly NewInstance[]): Promise<readonly CreateResult[]>;

  /**
   * Enqueues messages to instances.
   *
   * A provider must, per message:
   * - make the instance claimable, and no other (message/wakes-no-other-instance)
   * - return `missing` or `over`, storing nothing, if the instance is unknown or has ended
   *   (message/to-a-missing-instance-is-not-kept, message/to-an-instance-that-is-over-is-refused,
   *   message/to-a-missing-instance-blocks-no-other, batch/messages-are-answered-each)
   * - return `full` if `maxPending` messages of the kind are pending, including claimed ones
   *   (message/beyond-the-limit-is-full, message/the-limit-counts-one-kind-of-one-instance)
   * - return `repeated`, storing nothing, for a `key` that the instance has got, also after the message was read, over a
   *   continue-as-new, after the end and after a replacement; keys belong to one instance and are deleted with it
   *   (event-key/is-one-event, event-key/belongs-to-its-instance, event-key/survives-continue-as-new,
   *   event-key/survives-a-replacement, event-key/is-deleted-with-its-instance, event-key/a-refused-event-keeps-its-key-free)
   * - keep the order of messages to one instance (order/messages-come-in-the-order-of-their-arrival)
   * - record the audit entry of a `bulk` message in the same transaction, exactly if it was enqueued, with the smallest
   *   key so far; return `repeated`, changing nothing, for that key and all greater ones, also in a race
   *   (audit/records-events, audit/a-repeated-event-is-not-raised-twice)
   */
  enqueueMessages(messages: readonly NewMessage[]): Promise<readonly EnqueueResult[]>;

  /**
   * Reads instances by id.
   *
   * A provider must:
   * - return them in the order of the ids, with `undefined` for a missing one
   *   (read/instances-come-in-the-order-asked)
   * - return output, failure and custom status as they were stored (data/results-come-back-as-they-are)
   * - with `maxBytes`, return only as many leading records as fit into this payload size, at least one; the result is
   *   then shorter than the list of ids (read/instances-end-at-their-bytes)
   */
  getInstances(
    instanceIds: readonly string[],
    maxBytes?: number,
  ): Promise<readonly (InstanceRecord | undefined)[]>;

  /**
   * Lists instances, one page at a time.
   *
   * A provider must:
   * - list the newest first, at most `limit`, and only those older than `beforeKey` (read/list-is-newest-first,
   *   read/list-pages-have-no-gaps-or-repeats)
   * - list exactly the instances that match all conditions; `idPrefix`, `names`, `version`, `tags` and `failureCode` are
   *   literal; windows include their start and exclude their end (read/list-filters-by-status,
   *   read/list-filters-by-name, read/list-filters-by-version, read/list-filters-by-id-prefix,
   *   read/list-filters-by-parent, read/list-filters-by-time, read/list-filters-by-hold-back,
   *   read/list-filters-by-kind, read/list-filters-combine, list/by-several-names, list/roots-only, list/by-end-window,
   *   list/by-failure-code, list/by-failure-text, list/by-leaked, list/by-paused, list/by-tags, list/by-unregistered,
   *   list/pairs-of-conditions-combine)
   * - with `orderBy: 'ended'`, list only those that have ended, the last end first, and of equal ends the greatest key
   *   first (list/by-end-order, list/end-order-pages-have-no-gaps, list/end-order-combines)
   * - examine at most about 10,000 rows per page: a page may be short or empty while `nextKey` is set, and no instance
   *   is skipped or repeated; `nextKey` is `null` at the end (list/a-bounded-scan-leaves-no-gap)
   * - seek to a window of creation instead of reading all newer instances (list/a-window-is-found-directly)
   * - omit payloads that were not requested (read/list-leaves-payloads-out)
   * - with `maxBytes`, end the page before the first entry that would exceed this payload size, unless it is the first
   *   of the page; nothing after it is read (read/list-ends-at-its-bytes)
   */
  listInstances(params: ListInstancesParams): Promise<ListInstancesResult>;

  /**
   * Counts instances.
   *
   * A provider must:
   * - count exactly up to `cap`, unless more rows would have to be examined than `cap` and a fixed number; the result is
   *   `capped` then (count/is-exact-below-its-cap, count/stops-at-its-cap)
   */
  countInstances(params: CountInstancesParams): Promise<InstanceCount>;

  /**
   * Lists the definitions of orchestrations and tasks, by key, with the number of their instances.
   *
   * A provider must:
   * - return each definition of an instance that exists, with exact counts up to `cap` per status
   *   (definitions/are-counted-by-status, definitions/counts-are-capped)
   * - list those after a key, at most `limit`; examine a bounded number of rows (definitions/come-in-pages,
   *   definitions/are-listed-by-name)
   */
  listDefinitions(params: {
    readonly afterKey: number;
    readonly limit: number;
    readonly cap: number;
  }): Promise<readonly DefinitionRecord[]>;

  /**
   * Lists the executions of an instance, one page at a time.
   *
   * A provider must:
   * - list the oldest first, including the current one; return none for a missing instance
   *   (read/executions-of-a-new-instance, continue/keeps-the-finished-execution,
   *   terminal/leaves-its-history-readable)
   * - list executions after an id, at most `limit` (read/executions-come-in-pages)
   */
  listExecutions(params: ListExecutionsParams): Promise<readonly ExecutionRecord[]>;

  /**
   * Reads the headers of instances by key. Called only by workers with telemetry.
   *
   * A provider must:
   * - return them in the order of the keys, `null` for an instance without headers and for an unknown key
   *   (headers/are-kept-with-the-instance, headers/of-children-and-detached-starts)
   */
  readHeaders(instanceKeys: readonly number[]): Promise<readonly (string | null)[]>;

  /**
   * Reads a history by instance id, for inspection.
   *
   * A provider must:
   * - return the events after a position in order, at most `limit`; return none for a missing instance or execution
   *   (read/history-comes-in-pages, read/history-of-a-missing-instance-is-empty)
   * - with `maxBytes`, end the page with the first event that would exceed this size, unless it is the first of the
   *   page; that event is `withheld`, with empty `data` and no payload (read/history-ends-at-its-bytes)
   */
  readInstanceHistory(params: {
    readonly instanceId: string;
    readonly executionId: number;
    readonly after: number;
    readonly limit: number;
    readonly maxBytes?: number;
  }): Promise<readonly (StoredEvent & Withheld)[]>;
}
