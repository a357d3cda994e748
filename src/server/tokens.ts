import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../model/clock.ts';
import { PerdureError } from '../model/errors.ts';
import { checkName } from '../model/names.ts';
import { invalidOption, readFields } from '../model/option-fields.ts';
import { roles, type Role } from './routes/route.ts';

/** Somebody who may use the server, known by a token. */
export interface ServerToken {
  /** Who it is: the actor of what is done with it, and the owner of sessions. */
  readonly name: string;
  /** What may be done with it. */
  readonly role: Role;
  /** The SHA-256 of the token in hex, as `createToken` gives it: the token itself need not be anywhere here. */
  readonly sha256: string;
  /** From when on it is worth nothing. */
  readonly expiresAt?: Date | number | undefined;
}

/** Who asks, and what they may do. */
export interface Caller {
  /** `null` where the server knows nobody by name. */
  readonly name: string | null;
  readonly role: Role;
}

interface CheckedToken extends Caller {
  readonly digest: Buffer;
  readonly expiresAt: number;
}

/** Makes a token of 32 random bytes, and what a server is to know of it. */
export function createToken(): { readonly token: string; readonly sha256: string } {
  const token = `perdure_${randomBytes(32).toString('base64url')}`;
  return { token, sha256: digestOf(token).toString('hex') };
}

/** Knows callers by their tokens. */
export class Tokens {
  readonly #tokens: readonly CheckedToken[];
  readonly #clock: Clock;

  constructor(tokens: unknown, clock: Clock) {
    if (!Array.isArray(tokens)) throw invalidOption('tokens', tokens, 'an array of tokens');
    this.#tokens = tokens.map(readToken);
    this.#clock = clock;
    const names = new Set(this.#tokens.map(({ name }) => name));
    if (names.size < this.#tokens.length) {
      throw new PerdureError('INVALID_OPTION', 'Two tokens have one name; give each its own.');
    }
  }

  /** Whose token it is; every token is compared, so that the time taken tells nothing. */
  find(token: string): Caller | undefined {
    const digest = digestOf(token);
    const nowMs = this.#clock.now();
    let found: Caller | undefined;
    for (const one of this.#tokens) {
      if (timingSafeEqual(one.digest, digest) && nowMs < one.expiresAt) found = one;
    }
    return found && { name: found.name, role: found.role };
  }
}

function readToken(token: unknown, index: number): CheckedToken {
  const what = `tokens[${index}]`;
  const keys = ['name', 'role', 'sha256', 'expiresAt'] as const;
  const { name, role, sha256, expiresAt } = readFields(token, what, keys, 'INVALID_OPTION');
  if (!roles.includes(role as Role)) {
    throw invalidOption(`${what}.role`, role, `one of ${roles.join(', ')}`);
  }
  if (typeof sha256 !== 'string' || !/^[0-9a-f]{64}$/i.test(sha256)) {
    // What was given may be the token itself: it must not turn up in a log.
    throw new PerdureError(
      'INVALID_OPTION',
      `${what}.sha256 must be 64 hexadecimal digits: the sha256 that createToken() gives.`,
    );
  }
  return {
    name: checkName(name, `${what}.name`),
    role: role as Role,
    digest: Buffer.from(sha256, 'hex'),
    expiresAt: readExpiry(expiresAt, what),
  };
}

function readExpiry(expiresAt: unknown, what: string): number {
  if (expiresAt === undefined) return Number.POSITIVE_INFINITY;
  const time = expiresAt instanceof Date ? expiresAt.getTime() : expiresAt;
  if (typeof time === 'number' && Number.isFinite(time)) return time;
  throw invalidOption(
    `${what}.expiresAt`,
    expiresAt,
    'a valid Date, or milliseconds since the epoch',
  );
}

function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
