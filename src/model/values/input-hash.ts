import { hash } from 'node:crypto';
import { canonicalPayload, type Payload } from './payload.ts';

// The length of a hash. Shorter text is used as it is.
const maxPlainLength = 43;

/** Returns an identifier of an input that is equal for equal values, regardless of key order. */
export function inputHash(payload: Payload | null): string {
  const text = canonicalPayload(payload);
  return text.length <= maxPlainLength ? `=${text}` : `#${hash('sha256', text, 'base64url')}`;
}
