import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../../model/clock.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import { checkName } from '../../model/values/names.ts';
import { invalidOption, readFields } from '../../model/option-fields.ts';
import { readDefinitions, type AllowedDefinitions } from './allowed-definitions.ts';
import { roles, type Role } from '../routes/route.ts';

/** Somebody who may use the server, known by a token. */
export interface ServerToken {
  /** Who it is: the actor of what is done with it, and the owner of sessions. */
  readonly name: string;
  /** What may be done with it. */
  readonly role: Role;
  /**
   * The SHA-256 of the token in hex, as `createToken` returns it. Two while a token is rotated: the server accepts both,
   * so add the new one, move callers over, then remove the old one.
   */
  readonly sha256: string | readonly string[];
  /**
   * Names of the orchestrations, tasks and flows that it may use, 100 at most; `*` stands for any text. Default: all.
   * Routes that concern the whole store are then refused.
   */
  readonly definitions?: string | readonly string[] | undefined;
  /** From when on it is worth nothing. */
  readonly expiresAt?: Date | number | undefined;
}

/** Who asks, and what they may do. */
export interface Caller {
  /** `null` where the server knows nobody by name. */
  readonly name: string | null;
  readonly role: Role;
  /** The definitions that they may use. Absent: all. */
  readonly definitions?: AllowedDefinitions | undefined;
}

interface CheckedToken extends Caller {
  readonly digests: readonly Buffer[];
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
      throw new PerdureError(
        'INVALID_OPTION',
        'Two tokens have one name; give each its own. To rotate a token, pass both hashes as its sha256.',
      );
    }
    const digests = this.#tokens.flatMap((one) =>
      one.digests.map((digest) => digest.toString('hex')),
    );
    if (new Set(digests).size < digests.length) {
      throw new PerdureError(
        'INVALID_OPTION',
        'Two tokens have the same sha256; make one for each with createToken().',
      );
    }
  }

  /** Whose token it is; every token is compared, so that the time taken tells nothing. */
  find(token: string): Caller | undefined {
    const digest = digestOf(token);
    const nowMs = this.#clock.now();
    let found: Caller | undefined;
    for (const one of this.#tokens) {
      for (const known of one.digests) {
        if (timingSafeEqual(known, digest) && nowMs < one.expiresAt) found = one;
      }
    }
    return found && { name: found.name, role: found.role, definitions: found.definitions };
  }
}

function readToken(token: unknown, index: number): CheckedToken {
  const what = `tokens[${index}]`;
  const keys = ['name', 'role', 'sha256', 'definitions', 'expiresAt'] as const;
  const { name, role, sha256, definitions, expiresAt } = readFields(token, what, keys);
  return {
    ...readCaller({ name, role, definitions }, what),
    digests: readHashes(sha256, what),
    expiresAt: readExpiry(expiresAt, what),
  };
}

/** Reads the identity and the rights of a caller; throws `INVALID_OPTION` for invalid values. */
export function readCaller(
  given: { readonly name?: unknown; readonly role?: unknown; readonly definitions?: unknown },
  what: string,
): Caller {
  const { name, role, definitions } = given;
  if (!roles.includes(role as Role)) {
    throw invalidOption(`${what}.role`, role, `one of ${roles.join(', ')}`);
  }
  return {
    name: checkName(name, `${what}.name`),
    role: role as Role,
    definitions: readDefinitions(`${what}.definitions`, definitions),
  };
}

const maxHashes = 2;
// The hash of a token that was never set: of an empty environment variable, for example.
const emptyHash = digestOf('').toString('hex');

function readHashes(sha256: unknown, what: string): readonly Buffer[] {
  const hashes: readonly unknown[] = Array.isArray(sha256) ? sha256 : [sha256];
  // What was given may be the token itself: it must not turn up in a log.
  if (hashes.length === 0 || hashes.length > maxHashes) {
    throw new PerdureError(
      'INVALID_OPTION',
      `${what}.sha256 must be one hash, or two while the token is rotated; it has ${hashes.length}.`,
    );
  }
  return hashes.map((hash) => {
    if (typeof hash !== 'string' || !/^[0-9a-f]{64}$/i.test(hash)) {
      throw new PerdureError(
        'INVALID_OPTION',
        `${what}.sha256 must be 64 hexadecimal digits: the sha256 that createToken() gives.`,
      );
    }
    if (hash.toLowerCase() === emptyHash) {
      throw new PerdureError(
        'INVALID_OPTION',
        `${what}.sha256 is the hash of an empty token. Make a token with createToken().`,
      );
    }
    return Buffer.from(hash, 'hex');
  });
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
