import { PerdureError } from '../failures/errors.ts';
import type { EncodeContext, EncodedBytes, PayloadCodec, SealContext } from './codec.ts';
import { crc32 } from './crc32.ts';
import {
  isEncoded,
  isKeyId,
  isUndecoded,
  readEnvelope,
  encodedError,
  toEnvelope,
  undecoded,
} from './envelope.ts';
import { platform } from '../platform.ts';

const defaultTimeoutMs = 5_000;
const retryDelaysMs = [50, 500];
const maxReasonLength = 200;
const checksumBytes = 4;
/** Forgets which keys were checked, so that a codec with a new key for each payload uses bounded memory. */
const maxCheckedKeys = 1_000;

/** Applies a codec to texts: checks its results, limits its time and retries `encode`. */
export class PayloadSealer {
  readonly isPlain = false;
  readonly #codec: PayloadCodec;
  readonly #timeoutMs: number;
  readonly #checkedKeys = new Set<string>();

  constructor(codec: PayloadCodec, { timeoutMs = defaultTimeoutMs } = {}) {
    this.#codec = codec;
    this.#timeoutMs = timeoutMs;
  }

  /** For a reader, which never encodes. */
  static forReads(codec: Pick<PayloadCodec, 'decode'>): PayloadSealer {
    const encode = (): never => {
      throw new Error('this codec only decodes.');
    };
    return new PayloadSealer({ encode, decode: (bytes, keyId) => codec.decode(bytes, keyId) });
  }

  /** Returns the text to store. A text that is still encoded is returned unchanged. Rejects with `CODEC_FAILED`. */
  async seal(text: string, { keyInstanceId, ...owner }: SealContext): Promise<string> {
    if (isEncoded(text)) {
      // Storing it would replace the payload by the reason.
      if (isUndecoded(text)) throw encodedError(text);
      return text;
    }
    const framed = frame(text);
    const context = keyInstanceId === undefined ? owner : { ...owner, instanceId: keyInstanceId };
    for (const delayMs of retryDelaysMs) {
      try {
        return await this.#encode(framed, context);
      } catch {
        await sleep(delayMs);
      }
    }
    try {
      return await this.#encode(framed, context);
    } catch (cause) {
      throw new PerdureError(
        'CODEC_FAILED',
        `The codec could not encode a payload, so nothing was stored: ${describe(cause)}`,
        { cause },
      );
    }
  }

  /** Returns the text that was stored, or one that stands for a payload that could not be decoded. Never rejects. */
  async open(text: string): Promise<string> {
    let keyId: string | undefined;
    try {
      const envelope = readEnvelope(text);
      if (envelope === undefined) return text;
      ({ keyId } = envelope);
      return unframe(await this.#decode(envelope));
    } catch (error) {
      const key = keyId === undefined ? 'a payload' : `a payload with key ${JSON.stringify(keyId)}`;
      return undecoded(`The codec could not decode ${key}: ${describe(error)}`);
    }
  }

  /** Returns a text that is equal for equal texts and does not contain them. Rejects with `CODEC_FAILED`. */
  async hash(text: string): Promise<string> {
    const bytes = new TextEncoder().encode(text);
    try {
      const digest: unknown =
        this.#codec.hash === undefined
          ? new Uint8Array(await globalThis.crypto.subtle.digest('SHA-256', bytes))
          : await this.#limit('hash', () => this.#codec.hash?.(bytes));
      if (!(digest instanceof Uint8Array) || digest.length < 16) {
        throw new TypeError('hash() must return a Uint8Array of at least 16 bytes.');
      }
      return `~${[...digest].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;
    } catch (cause) {
      throw new PerdureError(
        'CODEC_FAILED',
        `The codec could not hash an input, so nothing was stored: ${describe(cause)}`,
        { cause },
      );
    }
  }

  /** Encodes and decodes a sample. Rejects with `CODEC_FAILED` if the codec does not return it. */
  async check(): Promise<void> {
    await this.seal('"perdure"', {});
    await this.hash('"perdure"');
  }

  async #encode(framed: Uint8Array, context: EncodeContext): Promise<string> {
    // A copy, because the codec may overwrite its argument.
    const result: EncodedBytes = await this.#limit('encode', () =>
      this.#codec.encode(framed.slice(), context),
    );
    const { keyId, bytes } = result as Partial<EncodedBytes>;
    if (!isKeyId(keyId)) {
      throw new TypeError(
        `encode() returned the key id ${JSON.stringify(keyId)}: must be 1 to 64 letters, digits, ".", "_" and "-".`,
      );
    }
    if (!(bytes instanceof Uint8Array)) {
      throw new TypeError('encode() must return { keyId, bytes } with a Uint8Array.');
    }
    if (!this.#checkedKeys.has(keyId)) await this.#checkKey(keyId, bytes, framed);
    return toEnvelope({ keyId, bytes });
  }

  /** The first use of a key: a payload that cannot be decoded would be lost. */
  async #checkKey(keyId: string, bytes: Uint8Array, framed: Uint8Array): Promise<void> {
    const decoded = await this.#decode({ keyId, bytes });
    const isEqual =
      decoded.length === framed.length && decoded.every((byte, index) => byte === framed[index]);
    if (!isEqual) {
      throw new Error(
        `decode() does not return the bytes that encode() got (${decoded.length} bytes instead of ${framed.length}).`,
      );
    }
    if (this.#checkedKeys.size >= maxCheckedKeys) this.#checkedKeys.clear();
    this.#checkedKeys.add(keyId);
  }

  async #decode({ keyId, bytes }: EncodedBytes): Promise<Uint8Array> {
    const decoded: unknown = await this.#limit('decode', () =>
      this.#codec.decode(bytes.slice(), keyId),
    );
    if (decoded instanceof Uint8Array) return decoded;
    throw new TypeError('decode() must return a Uint8Array.');
  }

  async #limit<T>(method: string, call: () => T | Promise<T>): Promise<T> {
    const result = call();
    if (!isThenable(result)) return result;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = platform.setTimeout(
        () => reject(new Error(`${method}() took longer than ${this.#timeoutMs} ms.`)),
        this.#timeoutMs,
      );
    });
    try {
      return await Promise.race([result, late]);
    } finally {
      platform.clearTimeout(timer);
    }
  }
}

function isThenable<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof (value as Partial<PromiseLike<T>> | null | undefined)?.then === 'function';
}

/** Prepends a checksum, so that a codec that returns other bytes is detected. */
function frame(text: string): Uint8Array {
  const bytes = new TextEncoder().encode(text);
  const framed = new Uint8Array(checksumBytes + bytes.length);
  new DataView(framed.buffer).setUint32(0, crc32(bytes));
  framed.set(bytes, checksumBytes);
  return framed;
}

function unframe(framed: Uint8Array): string {
  const bytes = framed.subarray(checksumBytes);
  const isIntact =
    framed.length >= checksumBytes &&
    new DataView(framed.buffer, framed.byteOffset).getUint32(0) === crc32(bytes);
  if (!isIntact) throw new Error('decode() returned other bytes than encode() got.');
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
}

function describe(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message.slice(0, maxReasonLength).toWellFormed();
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => void platform.setTimeout(resolve, ms));
}
