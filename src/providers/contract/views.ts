import type { StoredEvent } from '../../model/event.ts';
import type { InstanceStatus } from '../../model/status.ts';

/** Selects one page of the events of an execution. */
export interface ReadEventsParams {
  readonly instanceId: string;
  /** Absent: the current execution. */
  readonly executionId?: number;
  readonly order: 'asc' | 'desc';
  /** Exclusive: `asc` returns events with a greater id, `desc` with a smaller id. Absent: from the first or the last. */
  readonly from?: number;
  readonly limit: number;
  /** Maximum events to examine, matching or not. */
  readonly maxScanned: number;
  /** Only events of these kinds. Absent: any. */
  readonly kinds?: readonly string[];
  /** Only events whose `data` contains at least one of these texts. Absent: any. */
  readonly dataIncludes?: readonly string[];
  /** Maximum bytes of each payload to return, cut at a character boundary. Absent: whole payloads. */
  readonly headBytes?: number;
  /** End the page before the event that would exceed this total of `data` and returned payloads, in bytes. */
  readonly maxBytes: number;
}

/** An event of a page. */
export interface ViewedEvent extends StoredEvent {
  readonly eventId: number;
  /** The size of the whole payload in bytes; `null` without a payload. */
  readonly payloadBytes: number | null;
}

/** One page of events, with the state of the instance read before them. */
export interface EventView {
  readonly incarnation: string;
  readonly status: InstanceStatus;
  readonly currentExecutionId: number;
  /** The execution that the page belongs to. */
  readonly executionId: number;
  /** Whether the execution exists. `false` for one that was pruned or never started. */
  readonly exists: boolean;
  readonly events: readonly ViewedEvent[];
  /** The `from` of the next page. `null` if the page reached the end of the history. */
  readonly next: number | null;
}

/** Selects one page of a tree. */
export interface ReadTreeParams {
  readonly instanceId: string;
  /** The keys from the root to the last node of the previous page. Absent: from the root. */
  readonly after?: readonly number[];
  readonly limit: number;
  /** Maximum depth of nodes to return. The root has depth 0. */
  readonly maxDepth: number;
  /** Count at most this many children per node. */
  readonly maxChildren: number;
}

/** An instance as a node of its tree. */
export interface TreeRecord {
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly parentInstanceId: string | null;
  readonly depth: number;
  readonly kind: 'orchestration' | 'task';
  readonly name: string;
  readonly version: string | null;
  readonly status: InstanceStatus;
  readonly executionId: number;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  /** The number of direct children, at most `maxChildren`. */
  readonly children: number;
}

/** One page of a tree. */
export interface TreeView {
  readonly nodes: readonly TreeRecord[];
  /** The `after` of the next page. `null` at the end of the tree. */
  readonly next: readonly number[] | null;
}

/** The visible state of an instance, without payloads. */
export interface InstanceVersion {
  readonly instanceId: string;
  readonly name: string;
  readonly status: InstanceStatus;
  readonly executionId: number;
  /** The number of events of the current execution. */
  readonly historyLength: number;
  readonly customStatusVersion: number;
  /** Changes with every change of the instance's record or history. Opaque. */
  readonly version: string;
}

/** Reads for dashboards and command lines. Each call reads a bounded number of rows by index. */
export interface ViewStore {
  /**
   * Reads a page of a history, from either end.
   *
   * A provider must:
   * - return the events of the execution in the given order, beyond `from`, at most `limit`; pages that start at `next`
   *   have no gaps and no repeats (view/events-come-from-either-end, view/event-pages-have-no-gaps)
   * - return only events that match `kinds` and `dataIncludes`, and examine at most `maxScanned` events; `next` is then
   *   the last examined one, even if none matched (view/events-are-filtered, view/a-filter-examines-a-bounded-number)
   * - with `headBytes`, cut each payload at a character boundary, and return its whole size
   *   (view/payloads-are-cut-between-characters)
   * - end the page before the event that would exceed `maxBytes`, unless it is the first of the page
   *   (view/event-pages-end-at-their-bytes)
   * - return `undefined` for an unknown instance, and `exists: false` without events for an unknown execution
   *   (view/events-of-the-unknown)
   */
  readEvents(params: ReadEventsParams): Promise<EventView | undefined>;

  /**
   * Reads a page of an instance and its descendants, depth first.
   *
   * A provider must:
   * - return each parent before its children, and siblings in order of creation; pages that start at `next` have no
   *   gaps and no repeats (view/a-tree-comes-depth-first, view/tree-pages-have-no-gaps)
   * - return no node below `maxDepth`, and count children up to `maxChildren` (view/a-tree-is-bounded)
   * - return `undefined` for an unknown instance, and for an `after` that is no path of this tree
   *   (view/a-path-of-another-tree-is-unknown)
   */
  readTree(params: ReadTreeParams): Promise<TreeView | undefined>;

  /**
   * Reads the versions of instances by id.
   *
   * A provider must:
   * - return them in the order of the ids, with `undefined` for a missing one (view/versions-come-in-the-order-asked)
   * - change the version with every turn, start, custom status, pause, resume, cancel, hold-back, task attempt and end,
   *   and with a later instance of the same id; keep it otherwise (view/every-change-has-a-version,
   *   view/every-change-of-a-task-has-a-version)
   */
  readVersions(instanceIds: readonly string[]): Promise<readonly (InstanceVersion | undefined)[]>;
}
