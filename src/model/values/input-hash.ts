import { hash } from 'node:crypto';
import { canonicalPayload, type Payload } from './payload.ts';

// Below this, the text itself is shorter than or as long as its hash, and costs nothing to make.
const maxPlainLength = 43;

/** Identifies an input: equal for equal values, whatever order their keys were written in. */
export function inputHash(payload: Payload | null): string {
  const text = canonicalPayload(payload);
  return text.length <= maxPlainLength ? `=${text}` : `#${hash('sha256', text, 'base64url')}`;
}
