import type { CancelDetails } from '../../model/cancel.ts';
import type { StoredEvent } from '../../model/event.ts';
import type { StoredMessage } from '../../model/message.ts';
import type { InstanceStatus } from '../../model/status.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { StateValue } from '../../model/values/state.ts';
import type { Tags } from '../../model/values/tags.ts';
import type { AuditEntry } from './management.ts';
import type { Turn } from './turn.ts';

/** The execution that a retry or a fork was computed from. Anything else rejects it. */
export interface RerunSource {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly executionId: number;
  /** The least number of events. Of a retry: the exact number, because an ended history is complete. */
  readonly historyLength: number;
}

/** What the new execution begins with. */
export interface RerunStart {
  /** Events 2 to `length` are copied from the source; `first` replaces event 1. Absent: no events. */
  readonly kept?: { readonly first: StoredEvent; readonly length: number };
  /** The start of an execution without events, or answers that the kept events wait for. In order. */
  readonly messages: readonly StoredMessage[];
  /**
   * The work, timers and children that the kept events wait for, and the state after them. It has no events, and its
   * outcome is `running`. Absent: none, without events.
   */
  readonly turn?: Turn;
  /** The state after the kept events, or at the start of the source. All other keys are deleted. Absent: none. */
  readonly state?: readonly StateValue[];
  /** The kept events contain this cancel request: the instance is `canceling`. */
  readonly cancel?: CancelDetails & { readonly cleanupMs: number };
}

/** Runs an ended instance again, as its next execution. */
export interface InstanceRetry {
  readonly source: RerunSource;
  /** The version that the next execution runs. Ignored for task runs. */
  readonly version: string | null;
  /** Absent for a task run: its only work item is queued again. */
  readonly start?: RerunStart;
  /** A new input of a task run. Absent: unchanged. */
  readonly taskInput?: Payload | null;
  /** Recorded in the same transaction. */
  readonly audit?: AuditEntry;
  /** Of a bulk operation, whose `audit` records its progress: the key of the instance. Absent: not of one. */
  readonly bulkKey?: number;
}

/** Why a retry or a fork changed nothing. */
export type RerunRefusal =
  /** The id is unknown, or belongs to another incarnation. */
  | { readonly kind: 'missing' }
  /** It has a parent: only roots can be run again. */
  | { readonly kind: 'child'; readonly parentInstanceId: string }
  /** It has not ended, has completed, or was skipped. */
  | { readonly kind: 'status'; readonly status: InstanceStatus }
  /** Another execution is the current one, or the source has too few events. */
  | { readonly kind: 'changed' }
  /** A caller can still take its reply as a job. */
  | { readonly kind: 'job' }
  /** A handler of the task run, or its `onFail` handler, has not stopped yet. */
  | { readonly kind: 'busy' }
  /** Another run holds its dedupe key. */
  | { readonly kind: 'keyTaken'; readonly instanceId: string }
  /** The store rejected this one. Nothing of it was written, and other items are not affected. */
  | { readonly kind: 'refused'; readonly error: Error };

/** The result of a retry. */
export type RetryResult =
  | { readonly kind: 'retried'; readonly executionId: number }
  /** The bulk operation has already visited the instance. */
  | { readonly kind: 'repeated' }
  | RerunRefusal;

/** Creates an instance with a copy of the first events of an execution. */
export interface InstanceFork {
  readonly source: RerunSource;
  readonly instanceId: string;
  readonly incarnation: string;
  readonly name: string;
  readonly version: string | null;
  readonly inputHash: string;
  /** Where it was copied from. Opaque. A fork with the same id, origin, name and input is a repeat. */
  readonly forkedFrom: string;
  /** The tags of the new row. */
  readonly tags?: Tags;
  readonly start: RerunStart;
  /** Repeats a call with this incarnation whose outcome is unknown. */
  readonly isRepeat?: boolean;
  readonly audit?: AuditEntry;
}

/** The result of a fork. `exists`: a repeat. `conflict`: the id belongs to another instance. */
export type ForkResult =
  | { readonly kind: 'forked' }
  | { readonly kind: 'exists' }
  | { readonly kind: 'conflict'; readonly name: string }
  | RerunRefusal;

/** Runs instances again: under the same id, or as a new instance. */
export interface RerunStore {
  /**
   * Starts the next execution of ended roots, each in one transaction.
   *
   * A provider must, per instance:
   * - keep the ended execution with its status, failure, times and events (retry-run/keeps-the-ended-execution)
   * - make the instance live: no end, cancel, failure, output or pause is left (retry-run/makes-the-instance-live,
   *   retry-run/of-a-paused-instance-is-not-paused)
   * - copy the kept events, and write messages, work, timers and children (retry-run/copies-the-kept-events,
   *   retry-run/schedules-what-is-open)
   * - change nothing and return why, unless the root failed, was canceled, was terminated or expired, and the source is
   *   its current execution (retry-run/rejects-what-cannot-be-retried, retry-run/rejects-another-execution)
   * - let one of several concurrent retries win (retry-run/one-of-many-wins)
   * - drop outcomes of the ended execution that arrive later (retry-run/a-late-outcome-is-dropped)
   * - run a task run again with no failures and without expiry, holding its dedupe key
   *   (retry-run/runs-a-task-again, retry-run/a-taken-key-rejects)
   * - give an orchestration its dedupe key again, unless a live instance holds it (retry-run/takes-its-key-again)
   * - keep the tags of the row, and merge those of the turn (retry-run/keeps-the-tags)
   * - replace the state by that of the start, with new versions for changed values (retry-run/replaces-the-state)
   * - record the audit entry (retry-run/is-audited)
   * - with `bulkKey`, record it as the smallest key so far; return `repeated`, changing nothing, for that key and all
   *   greater ones, whatever the instance did meanwhile (retry-run/a-bulk-operation-retries-once)
   */
  retryInstances(retries: readonly InstanceRetry[]): Promise<readonly RetryResult[]>;

  /**
   * Creates instances with copied events, each in one transaction. The source can be live.
   *
   * A provider must, per instance:
   * - copy exactly the kept events and change nothing of the source (fork/copies-the-kept-events,
   *   fork/leaves-its-original-unchanged)
   * - insert the row with its origin, and write messages, work, timers and children (fork/schedules-what-is-open)
   * - store the tags with the row (fork/stores-its-tags)
   * - store the state of the start (fork/stores-its-state)
   * - return `exists` for a repeat and `conflict` for another instance, changing nothing
   *   (fork/a-repeat-exists, fork/a-taken-id-conflicts)
   * - treat `isRepeat` as `createInstances` does (repeat/of-a-deleted-fork)
   * - change nothing if the source is missing, a child, or shorter than the kept events (fork/rejects-a-missing-source)
   * - record the audit entry (fork/is-audited)
   */
  forkInstances(forks: readonly InstanceFork[]): Promise<readonly ForkResult[]>;
}
