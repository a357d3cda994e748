import type { InstanceStatus } from '../../model/status.ts';
import type { Payload } from '../../model/values/payload.ts';

/** Selects a part of an instance's state, or its custom status. */
export interface StateRequest {
  readonly instanceId: string;
  readonly what: 'state' | 'status';
  /** Of `state`: only this key. Absent: all keys. */
  readonly key?: string;
  /** Return only versions above this one. */
  readonly after: number;
}

/** The value of one key. Versions of an instance increase with every change and never repeat. */
export interface StateRecord {
  readonly key: string;
  readonly payload: Payload;
  readonly version: number;
}

/** What a request selects, with the instance that it was read from. */
export interface StateView {
  readonly incarnation: string;
  /** Read before the values: those of an ended instance are its last. */
  readonly status: InstanceStatus;
  /** The values that were requested, by key. */
  readonly entries: readonly StateRecord[];
  /** The custom status, if it was requested and its version is above `after`. */
  readonly customStatus?: { readonly payload: Payload | null; readonly version: number };
}

/** Reads what turns wrote for clients. */
export interface StateStore {
  /**
   * Reads the state or the custom status of instances.
   *
   * A provider must:
   * - return them in the order of the requests, with `undefined` for a missing instance, and entries in the order of
   *   their keys in UTF-8 (state/reads-come-in-the-order-asked)
   * - return what the last committed turn wrote, with a version above all earlier ones of the instance
   *   (state/is-written-by-the-ack, state/versions-never-repeat)
   * - return only the key and the versions that were requested (state/reads-one-key-after-a-version)
   * - return the custom status with its version (state/custom-status-has-a-version)
   */
  readStates(requests: readonly StateRequest[]): Promise<readonly (StateView | undefined)[]>;
}
