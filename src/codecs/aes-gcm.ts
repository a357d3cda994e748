import type { EncodeContext, PayloadCodec } from '../model/encoding/codec.ts';
import { isKeyId } from '../model/encoding/envelope.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { invalidOption, readFields } from '../model/option-fields.ts';

/** Returns the bytes of a key: 16, 24 or 32. `undefined` for an unknown id. */
type KeySource = (keyId: string) => Uint8Array | undefined | Promise<Uint8Array | undefined>;

/** Options of `aesGcm()`. */
export interface AesGcmOptions {
  /** The id of the key that encrypts, or a function that chooses it, for example by tenant. */
  readonly current: string | ((context: EncodeContext) => string);
  /**
   * The keys by id: 16, 24 or 32 bytes. Or a function that reads one, for example from a key service; its result is cached
   * for `cacheMs`. Keep old keys as long as payloads need them.
   */
  readonly keys: Readonly<Record<string, Uint8Array>> | KeySource;
  /** The key of the hashes with which repeated starts are recognized. At least 16 bytes. Must never change. */
  readonly hashKey: Uint8Array;
  /** How long a key that a function returned is cached, in milliseconds. Default: 5 minutes. */
  readonly cacheMs?: number;
}

type Key = Awaited<ReturnType<typeof globalThis.crypto.subtle.deriveKey>>;

const optionNames = ['current', 'keys', 'hashKey', 'cacheMs'] as const;
const nonceBytes = 12;
const maxCachedKeys = 10_000;

/**
 * Encrypts payloads with AES-GCM, with a random nonce for each. Rotate the key after 2^32 payloads at the latest. To rotate,
 * add a key to all processes first, then make it `current`. Throws `INVALID_OPTION`.
 */
export function aesGcm(options: AesGcmOptions): PayloadCodec {
  checkOptions(options);
  const { current, hashKey, cacheMs = 300_000 } = options;
  const source = toSource(options.keys);
  const cache = new Map<string, { readonly key: Promise<Key>; readonly until: number }>();

  function keyOf(keyId: string): Promise<Key> {
    const cached = cache.get(keyId);
    if (cached !== undefined && performance.now() < cached.until) return cached.key;
    const key = importKey(keyId, source);
    if (cache.size >= maxCachedKeys) cache.clear();
    cache.set(keyId, { key, until: performance.now() + cacheMs });
    // A failed read is repeated by the next call.
    key.catch(() => cache.delete(keyId));
    return key;
  }

  const macKey = globalThis.crypto.subtle.importKey(
    'raw',
    Uint8Array.from(hashKey),
    { name: 'HMAC', hash: 'SHA-256' },
    false,
    ['sign'],
  );

  return {
    async encode(bytes, context) {
      const keyId = typeof current === 'function' ? current(context) : current;
      const key = await keyOf(keyId);
      const iv = globalThis.crypto.getRandomValues(new Uint8Array(nonceBytes));
      const sealed = await globalThis.crypto.subtle.encrypt(
        { name: 'AES-GCM', iv },
        key,
        Uint8Array.from(bytes),
      );
      const encoded = new Uint8Array(nonceBytes + sealed.byteLength);
      encoded.set(iv);
      encoded.set(new Uint8Array(sealed), nonceBytes);
      return { keyId, bytes: encoded };
    },
    async decode(bytes, keyId) {
      const key = await keyOf(keyId);
      const own = Uint8Array.from(bytes);
      const iv = own.subarray(0, nonceBytes);
      try {
        const opened = await globalThis.crypto.subtle.decrypt(
          { name: 'AES-GCM', iv },
          key,
          own.subarray(nonceBytes),
        );
        return new Uint8Array(opened);
      } catch (cause) {
        throw new Error('the payload was changed, or another key with this id has encrypted it.', {
          cause,
        });
      }
    },
    async hash(bytes) {
      const signed = await globalThis.crypto.subtle.sign(
        'HMAC',
        await macKey,
        Uint8Array.from(bytes),
      );
      return new Uint8Array(signed);
    },
  };
}

function toSource(keys: AesGcmOptions['keys']): KeySource {
  return typeof keys === 'function'
    ? keys
    : (keyId) => (Object.hasOwn(keys, keyId) ? keys[keyId] : undefined);
}

async function importKey(keyId: string, source: KeySource): Promise<Key> {
  const bytes = await source(keyId);
  if (bytes === undefined) throw new Error(`the key ${JSON.stringify(keyId)} is unknown.`);
  checkKey(keyId, bytes);
  return globalThis.crypto.subtle.importKey('raw', Uint8Array.from(bytes), 'AES-GCM', false, [
    'encrypt',
    'decrypt',
  ]);
}

function checkOptions(options: AesGcmOptions): void {
  const { current, keys, hashKey, cacheMs } = readFields(options, 'aesGcm()', optionNames);
  if (typeof keys !== 'function') {
    if (typeof keys !== 'object' || keys === null) {
      throw invalidOption('keys', keys, 'an object of keys by id, or a function');
    }
    for (const [keyId, bytes] of Object.entries(keys)) checkKey(keyId, bytes);
  }
  if (typeof current === 'string') {
    const isKnown = typeof keys === 'function' || Object.hasOwn(keys, current);
    if (!isKnown) throw invalidOption('current', current, 'the id of one of `keys`');
  } else if (typeof current !== 'function') {
    throw invalidOption('current', current, 'the id of a key, or a function that returns one');
  }
  // The error does not contain the value, which is a secret.
  if (!(hashKey instanceof Uint8Array) || hashKey.length < 16) {
    throw invalid('Invalid `hashKey`: must be a Uint8Array of at least 16 bytes.');
  }
  if (cacheMs !== undefined && !(typeof cacheMs === 'number' && cacheMs >= 0)) {
    throw invalidOption('cacheMs', cacheMs, 'a number of milliseconds');
  }
}

function checkKey(keyId: string, bytes: unknown): void {
  if (!isKeyId(keyId)) {
    throw invalid(
      `Invalid key id ${JSON.stringify(keyId)}: must be 1 to 64 letters, digits, ".", "_" and "-".`,
    );
  }
  if (!(bytes instanceof Uint8Array) || ![16, 24, 32].includes(bytes.length)) {
    throw invalid(
      `Invalid key ${JSON.stringify(keyId)}: must be a Uint8Array of 16, 24 or 32 bytes.`,
    );
  }
}

function invalid(message: string): PerdureError {
  return new PerdureError('INVALID_OPTION', message);
}
