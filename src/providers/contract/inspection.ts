import type { CancelTrigger } from '../../model/failures/errors.ts';
import type { Payload } from '../../model/values/payload.ts';

/** Maximum length of heartbeats and failures that are read for pending work. */
export const maxShownLength = 65_536;

/** An activity or task run without an outcome. */
export interface PendingItem {
  readonly kind: 'activity' | 'task' | 'onFail';
  readonly executionId: number;
  readonly operation: number;
  readonly name: string;
  /** The options of the item. */
  readonly options: string | null;
  /** The number of failed attempts. */
  readonly failures: number;
  /** The last `Failure` as JSON text. Empty if it is longer than `maxShownLength`. */
  readonly lastFailure: string | null;
  /** The last heartbeat. `null` if it is longer than `maxShownLength`. */
  readonly heartbeat: Payload | null;
  /** When it can be claimed, unless a worker holds it. */
  readonly dueAt: number;
  /** The claim of the worker that holds it. */
  readonly held: {
    readonly worker: string | null;
    readonly claimedAt: number;
    readonly lockedUntil: number;
  } | null;
  readonly cancel: { readonly reason: string; readonly trigger: CancelTrigger } | null;
}

/** Details of an instance that its record does not have. */
export interface InstanceDetails {
  /** The input of the current execution. */
  readonly input: Payload | null;
  readonly pending: readonly PendingItem[];
}

/** Reads for operators. */
export interface InspectionStore {
  /**
   * Reads the input of an instance and its work without an outcome.
   *
   * A provider must:
   * - return `undefined` for an unknown id (inspect/an-unknown-id-is-undefined)
   * - read the input of the current execution, started or not, and of a task run (inspect/shows-the-input)
   * - list work by execution and operation, at most `maxPending`: attempts, last failure, heartbeat, due time and
   *   holder (inspect/lists-pending-work, inspect/pending-work-is-bounded)
   * - list work with an expired lease as not held, due from the end of the lease (inspect/a-lapsed-claim-is-not-held)
   */
  inspectInstance(params: {
    readonly instanceId: string;
    readonly maxPending: number;
  }): Promise<InstanceDetails | undefined>;
}
