/** The owner of a payload, from which a codec can choose a key. At most one field is set. */
export interface EncodeContext {
  /**
   * The instance that the payload belongs to, or that a debounced start asked for. The default id of a child starts with the
   * id of its parent.
   */
  readonly instanceId?: string;
  /** The schedule whose runs get the payload as input. */
  readonly schedule?: string;
  /** The session that the variable belongs to. */
  readonly sessionId?: string;
}

/** The owner of a text inside of Perdure, from which `EncodeContext` is made. */
export interface SealContext extends EncodeContext {
  /**
   * Set instead of `instanceId` if the store may pass the payload to another instance. A codec chooses its key from it, but
   * the payload has no owner with which it is deleted.
   */
  readonly keyInstanceId?: string;
}

/** The result of `encode`. */
export interface EncodedBytes {
  /** Passed to `decode`. Stored in plain text: 1 to 64 letters, digits, `.`, `_` and `-`. */
  readonly keyId: string;
  readonly bytes: Uint8Array;
}

/**
 * Encodes payloads before they are stored, and decodes them after they are read. `decode` must return exactly the bytes that
 * `encode` got. Both can be asynchronous. Perdure retries `encode` twice, and limits each call to 5 s.
 */
export interface PayloadCodec {
  encode(bytes: Uint8Array, context: EncodeContext): EncodedBytes | Promise<EncodedBytes>;
  decode(bytes: Uint8Array, keyId: string): Uint8Array | Promise<Uint8Array>;
  /**
   * Returns a keyed hash of an input, with which a repeated start is recognized. It must not change with a rotation of
   * keys. Default: SHA-256, from which short inputs can be guessed.
   */
  hash?(bytes: Uint8Array): Uint8Array | Promise<Uint8Array>;
}
