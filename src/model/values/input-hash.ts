import { hash } from 'node:crypto';
import { canonicalPayload, type Payload } from './payload.ts';

// The length of a hash. Shorter text is used as it is.
const maxPlainLength = 43;

/**
 * The identifier of the input of an instance with a generated id. No start is a repeat of it, so objects are not compared:
 * their canonical form takes a parse and a stringify.
 */
export function generatedInputHash(payload: Payload | null): string {
  return payload?.includes('{') === true ? '~' : inputHash(payload);
}

/** Returns an identifier of an input that is equal for equal values, regardless of key order. */
export function inputHash(payload: Payload | null): string {
  const text = canonicalPayload(payload);
  return text.length <= maxPlainLength ? `=${text}` : `#${hash('sha256', text, 'base64url')}`;
}
