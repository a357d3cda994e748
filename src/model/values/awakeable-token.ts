import { hash } from 'node:crypto';
import { PerdureError } from '../failures/errors.ts';
import { randomSecret } from './random-id.ts';

const prefix = 'awk_';
const form = /^awk_[A-Za-z0-9_-]{32}$/;

/** Returns a new token: 192 random bits. */
export function createAwakeableToken(): string {
  return prefix + randomSecret();
}

/**
 * Returns the hash by which a store finds an awakeable. The store never has the token itself, and the comparison of hashes
 * tells nothing about the tokens. A text that is no token has no awakeable either.
 */
export function hashAwakeableToken(token: string): string {
  return hash('sha256', token, 'base64url');
}

/** Whether a text has the form of a token. */
export function isAwakeableToken(token: unknown): token is string {
  return typeof token === 'string' && form.test(token);
}

/** The error of a token without an open awakeable. It is the same for every reason, and never contains the token. */
export function awakeableNotFound(): PerdureError {
  return new PerdureError(
    'AWAKEABLE_NOT_FOUND',
    'No open awakeable has this token. It is wrong, was withdrawn, or its execution has ended.',
  );
}

/** The error of a token that was answered before. */
export function awakeableAnswered(): PerdureError {
  return new PerdureError(
    'AWAKEABLE_ALREADY_ANSWERED',
    'This awakeable was answered before. The first answer counts.',
  );
}
