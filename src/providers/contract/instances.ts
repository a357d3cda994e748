import type { CancelRequest } from '../../model/cancel.ts';
import type { StoredEvent } from '../../model/event.ts';
import type { StoredMessage } from '../../model/message.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { ExecutionStatus, InstanceStatus } from '../../model/status.ts';
import type { Withheld } from './page-bytes.ts';
import type { OnFailState } from './tasks.ts';
import type { ClaimedAtInsert, Turn } from './turn.ts';

/** An instance to be created. */
export interface NewInstance {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly name: string;
  readonly version: string | null;
  /** Hash of the canonical input: the same id with the same name and hash is the same start. */
  readonly inputHash: string;
  readonly start: StoredMessage;
  /** The first turn, already run: its events stand in for the start message. Fast path 3. */
  readonly firstTurn?: Turn;
}

/** `exists`: this very start was made before. `conflict`: the id belongs to another name or input. */
export type CreateResult =
  | {
      readonly kind: 'created';
      readonly instanceKey: number;
      readonly claimed: readonly ClaimedAtInsert[];
    }
  | { readonly kind: 'exists' }
  | { readonly kind: 'conflict'; readonly name: string }
  /** The store could not take this one; nothing of it was kept, and its neighbours are not affected. */
  | { readonly kind: 'refused'; readonly error: Error };

/** A message to an instance. */
export interface NewMessage {
  readonly instanceId: string;
  readonly message: StoredMessage;
  /** Refuse when this many of the kind already wait, in the queue or (external events) with the code. */
  readonly maxPending?: number;
}

/** What became of a message: queued, or refused because nobody is there, it is over, or too many wait. */
export type EnqueueResult = 'enqueued' | 'missing' | 'over' | 'full';

/** What is known of an instance, read from its row and never from its history. */
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
  /** How often it was set; 0 before the first time. */
  readonly customStatusVersion: number;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  /** The first wish that it stop. */
  readonly cancel: CancelRequest | null;
  /** It was canceled before its code had cleaned up. */
  readonly cleanupSkipped: boolean;
  /** Handlers that went on past their grace period. */
  readonly leaked: number;
  /** Why and by whom it was terminated. */
  readonly terminated: { readonly reason: string; readonly actor: string | null } | null;
  /** Why its turns are held back, and since when. */
  readonly blocked: { readonly reason: string; readonly at: number } | null;
  /** What is known of a task run besides; `null` for an orchestration. */
  readonly task: TaskRecord | null;
}

/** What a task run has that an orchestration has not. */
export interface TaskRecord {
  readonly priority: number;
  readonly input: Payload | null;
  readonly dedupeKey: string | null;
  readonly runAt: number | null;
  readonly expiresAt: number | null;
  /** Attempts that failed, the last one included. */
  readonly failures: number;
  /** As it was given with the task; the headers are in it. */
  readonly options: string | null;
  readonly onFail: OnFailState | null;
  /** Why the handler for failures failed itself: a `Failure` as JSON text. */
  readonly onFailFailure: string | null;
}

/** What is known of one execution of an instance. */
export interface ExecutionRecord {
  readonly executionId: number;
  readonly status: ExecutionStatus;
  readonly version: string | null;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  readonly historyLength: number;
}

/** Conditions that must all hold. Absent: any. */
export interface InstanceConditions {
  readonly status?: readonly InstanceStatus[];
  readonly kind?: 'orchestration' | 'task';
  readonly name?: string;
  readonly version?: string;
  readonly idPrefix?: string;
  readonly parentInstanceId?: string;
  readonly createdFrom?: number;
  readonly createdBefore?: number;
  readonly blocked?: boolean;
}

/** One page of a listing. */
export interface ListInstancesParams {
  readonly filter: InstanceConditions;
  readonly limit: number;
  /** Only instances older than this key: where the last page ended. */
  readonly beforeKey?: number;
  /** `false`: leave out `output`, `customStatus` and `input`, which are then `null`. Default `true`. */
  readonly payloads?: boolean;
  /** End the page at the first entry whose stored payloads would take it over so many bytes. Default: no bound. */
  readonly maxBytes?: number;
}

/** One page of an instance's executions. */
export interface ListExecutionsParams {
  readonly instanceId: string;
  /** The id after which the page begins; 0 for the first. */
  readonly after: number;
  readonly limit: number;
}

/** The instances themselves: creating, reading, listing, and messages to them. */
export interface InstanceStore {
  /**
   * Creates instances with their start messages (or their first turns).
   *
   * A provider must, per instance:
   * - insert the row and the message together (create/inserts-a-pending-row,
   *   create/enqueues-the-start-with-the-row)
   * - answer `exists` for the same name and input hash, `conflict` for others, also when the other is over,
   *   changing nothing (create/the-same-start-exists, create/another-name-conflicts,
   *   create/another-input-conflicts, create/an-id-that-is-over-stays-taken,
   *   create/a-claimed-instance-keeps-its-claim, create/repeats-within-a-batch,
   *   create/concurrent-starts-have-one-winner, shared/starts-are-idempotent-across-processes)
   * - with a first turn, commit what `ackOrchestrationItems` would commit, and enqueue no start message
   *   (first-turn/commits-what-an-ack-commits, first-turn/enqueues-no-start, first-turn/is-the-last-turn,
   *   first-turn/reports-items-claimed-at-insert, first-turn/can-end-the-instance,
   *   first-turn/can-continue-as-new, first-turn/is-told-of-a-taken-child,
   *   first-turn/can-be-followed-by-a-turn-ack)
   * - commit nothing of a first turn whose id is taken (first-turn/of-a-taken-id-commits-nothing)
   * - keep one bad instance from spoiling its neighbours (create/a-conflict-spares-its-neighbours,
   *   create/a-refused-one-spares-its-neighbours)
   */
  createInstances(instances: readonly NewInstance[]): Promise<readonly CreateResult[]>;

  /**
   * Enqueues messages to instances.
   *
   * A provider must, per message:
   * - make the instance visible, and no other (message/wakes-nobody-else)
   * - answer `missing` or `over`, keeping nothing, when there is nobody to read it
   *   (message/to-nobody-is-missing-and-kept-nowhere, message/to-an-instance-that-is-over-is-refused,
   *   message/to-a-missing-instance-blocks-nobody, batch/messages-are-answered-each)
   * - answer `full` when `maxPending` messages of the kind wait already, those being read included
   *   (message/beyond-the-limit-is-full, message/the-limit-counts-one-kind-of-one-instance)
   * - keep the order of messages to one instance (order/messages-come-in-the-order-of-their-arrival)
   */
  enqueueMessages(messages: readonly NewMessage[]): Promise<readonly EnqueueResult[]>;

  /**
   * Reads instances by id.
   *
   * A provider must:
   * - answer in the order asked, with `undefined` for a missing one (read/instances-come-in-the-order-asked)
   * - return output, failure and custom status as they were stored (data/results-come-back-as-they-are)
   * - with `maxBytes`, return only as many of the first ones as have so many bytes of payloads together, at least one:
   *   the result is then shorter than what was asked for (read/instances-end-at-their-bytes)
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
   * - list exactly those for which all conditions hold; `idPrefix`, `name` and `version` are literal, `createdFrom` is
   *   included and `createdBefore` is not (read/list-filters-by-status, read/list-filters-by-name,
   *   read/list-filters-by-version, read/list-filters-by-id-prefix, read/list-filters-by-parent, read/list-filters-by-time,
   *   read/list-filters-by-hold-back, read/list-filters-by-kind, read/list-filters-combine)
   * - leave out payloads that are not asked for (read/list-leaves-payloads-out)
   * - with `maxBytes`, end the page with the first entry, but never the first of the page, that would take it over so many
   *   bytes of payloads; that one is `withheld` and has none. Nothing after it is read (read/list-ends-at-its-bytes)
   */
  listInstances(params: ListInstancesParams): Promise<readonly InstanceRecord[]>;

  /**
   * Lists the executions of an instance, one page at a time.
   *
   * A provider must:
   * - list the oldest first, the current one included; none for a missing instance
   *   (read/executions-of-a-new-instance, continue/keeps-the-finished-execution,
   *   terminal/leaves-its-history-readable)
   * - list those after an execution id, at most `limit` (read/executions-come-in-pages)
   */
  listExecutions(params: ListExecutionsParams): Promise<readonly ExecutionRecord[]>;

  /**
   * Reads a history by instance id, for inspection.
   *
   * A provider must:
   * - return the events after a point, in order, at most `limit`; none for a missing instance or execution
   *   (read/history-comes-in-pages, read/history-of-nobody-is-empty)
   * - with `maxBytes`, end the page with the first event, but never the first of the page, that would take it over so many
   *   bytes; that one is `withheld`, with empty `data` and no payload (read/history-ends-at-its-bytes)
   */
  readInstanceHistory(params: {
    readonly instanceId: string;
    readonly executionId: number;
    readonly after: number;
    readonly limit: number;
    readonly maxBytes?: number;
  }): Promise<readonly (StoredEvent & Withheld)[]>;
}
