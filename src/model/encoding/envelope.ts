import { PerdureError } from '../failures/errors.ts';

/**
 * The texts that replace payloads. JSON never starts with `~`, so a payload that was stored without a codec is never taken
 * for an encoded one.
 *
 * - `~perdure1:<key id>:<base64>`: encoded bytes, as stored.
 * - `~perdure2:<key>`: the key of a payload in an external store, as stored.
 * - `~perdure!<reason>`: a payload that could not be decoded, as returned by a read. It is never stored.
 */
export const encodedPrefix = '~perdure1:';
const externalPrefix = '~perdure2:';
const failedPrefix = '~perdure!';
const tilde = 126;

/** A payload in a response that is encoded with a codec that the server does not have. */
export interface EncodedValue {
  readonly $encoded: string;
}

/** An encoded payload. */
export interface Envelope {
  readonly keyId: string;
  readonly bytes: Uint8Array;
}

const keyIdPattern = /^[\w.-]{1,64}$/;

/** Whether a text can be a key id. */
export function isKeyId(value: unknown): value is string {
  return typeof value === 'string' && keyIdPattern.test(value);
}

/** Whether a text is an encoded payload, or stands for one that could not be decoded. */
export function isEncoded(text: string): boolean {
  // Called for every payload: one comparison unless the text starts with a tilde.
  return (
    text.charCodeAt(0) === tilde &&
    (text.startsWith(encodedPrefix) ||
      text.startsWith(externalPrefix) ||
      text.startsWith(failedPrefix))
  );
}

/** Whether a text stands for a payload that could not be decoded. */
export function isUndecoded(text: string): boolean {
  return text.startsWith(failedPrefix);
}

/** Returns the text to store for encoded bytes. */
export function toEnvelope({ keyId, bytes }: Envelope): string {
  return `${encodedPrefix}${keyId}:${toBase64(bytes)}`;
}

/** Reads a stored text. Returns `undefined` for a text that is not encoded. Throws for a damaged one. */
export function readEnvelope(text: string): Envelope | undefined {
  if (!text.startsWith(encodedPrefix)) return undefined;
  const end = text.indexOf(':', encodedPrefix.length);
  const keyId = text.slice(encodedPrefix.length, end);
  if (end < 0 || !isKeyId(keyId)) throw new Error('the stored text is damaged');
  return { keyId, bytes: fromBase64(text.slice(end + 1)) };
}

/** Returns the text to store for a payload in an external store. */
export function externalEnvelope(key: string): string {
  return `${externalPrefix}${key}`;
}

/** Returns the key of a payload in an external store. `undefined` for another text. */
export function readExternalKey(text: string): string | undefined {
  return text.startsWith(externalPrefix) ? text.slice(externalPrefix.length) : undefined;
}

/** Returns the text that stands for a payload that could not be decoded. */
export function undecoded(reason: string): string {
  return `${failedPrefix}${reason}`;
}

/** The `CODEC_FAILED` error of a payload that is still encoded. */
export function encodedError(text: string): PerdureError {
  return new PerdureError('CODEC_FAILED', reasonOf(text));
}

/** Explains why a text is still encoded. Contains no part of the payload. */
export function reasonOf(text: string): string {
  if (text.startsWith(failedPrefix)) return text.slice(failedPrefix.length);
  if (text.startsWith(externalPrefix))
    return 'A payload is in an external store. Pass `externalPayloads` with this store.';
  const keyId = text.slice(encodedPrefix.length).split(':', 1)[0] ?? '';
  return `A payload is encoded with key ${JSON.stringify(keyId)}. Pass the \`codec\` that has this key.`;
}

const native = globalThis.Buffer as typeof Buffer | undefined;

function toBase64(bytes: Uint8Array): string {
  if (native !== undefined) {
    return native.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
  }
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

function fromBase64(text: string): Uint8Array {
  if (native !== undefined) return native.from(text, 'base64');
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
