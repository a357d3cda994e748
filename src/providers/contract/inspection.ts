import type { CancelTrigger } from '../../model/failures/errors.ts';
import type { Payload } from '../../model/values/payload.ts';

/** Longer heartbeats and failures of pending work are not read. */
export const maxShownLength = 65_536;

/** An activity or task run that has no outcome yet. */
export interface PendingItem {
  readonly kind: 'activity' | 'task' | 'onFail';
  readonly executionId: number;
  readonly operation: number;
  readonly name: string;
  /** As it was given with the item. */
  readonly options: string | null;
  /** Attempts that failed. */
  readonly failures: number;
  /** The last `Failure` as JSON text; empty where it is longer than `maxShownLength`. */
  readonly lastFailure: string | null;
  /** What the handler last reported; `null` also where it is longer than `maxShownLength`. */
  readonly heartbeat: Payload | null;
  /** When it may be claimed, unless a worker holds it. */
  readonly dueAt: number;
  /** Who holds it. */
  readonly held: {
    readonly worker: string | null;
    readonly claimedAt: number;
    readonly lockedUntil: number;
  } | null;
  readonly cancel: { readonly reason: string; readonly trigger: CancelTrigger } | null;
}

/** What is stored of an instance besides its row. */
export interface InstanceDetails {
  /** The input of the current execution. */
  readonly input: Payload | null;
  readonly pending: readonly PendingItem[];
}

/** Reads for operators. */
export interface InspectionStore {
  /**
   * Reads the input of an instance and its work that has no outcome yet.
   *
   * A provider must:
   * - answer `undefined` for an unknown id (inspect/an-unknown-id-is-undefined)
   * - read the input of the current execution, whether or not it has begun, and of a task run
   *   (inspect/shows-the-input)
   * - list work by execution and operation, at most `maxPending`: attempts, last failure, heartbeat, when it is due, and
   *   who holds it (inspect/lists-pending-work, inspect/pending-work-is-bounded)
   * - list work whose lease has expired as not held, due from the end of the lease
   *   (inspect/a-lapsed-claim-is-not-held)
   */
  inspectInstance(params: {
    readonly instanceId: string;
    readonly maxPending: number;
  }): Promise<InstanceDetails | undefined>;
}
