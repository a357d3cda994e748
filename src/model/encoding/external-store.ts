/** A key of an external payload, and when it was written. */
export interface ExternalKey {
  readonly key: string;
  /** Milliseconds since the epoch. */
  readonly writtenAt: number;
}

/**
 * A store for large payloads, such as a bucket or a folder. Keys consist of letters, digits, `-`, `_`, `.` and `/`, and have at
 * most 1,500 characters. All methods can be called by several processes at the same time.
 */
export interface ExternalPayloadStore {
  /** Stores bytes. Must be durable when it resolves. */
  put(key: string, bytes: Uint8Array): Promise<void>;
  /** Returns the bytes of a key. `undefined`: there is no such key. */
  get(key: string): Promise<Uint8Array | undefined>;
  /** Deletes keys. Unknown ones are ignored. */
  delete(keys: readonly string[]): Promise<void>;
  /** Lists up to `limit` keys that start with `prefix` and come after `after`, in the store's own fixed order. */
  list(page: {
    readonly prefix?: string;
    readonly after?: string;
    readonly limit: number;
  }): Promise<readonly ExternalKey[]>;
}

/** Option of `Perdure.open()`: keeps large payloads in another store. */
export interface ExternalPayloads {
  readonly store: ExternalPayloadStore;
  /** Payloads of more bytes of JSON are stored externally. At least 1,024. Default: 128 KiB. */
  readonly aboveBytes?: number;
}
