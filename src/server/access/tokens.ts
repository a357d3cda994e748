import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../../model/clock.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import type { Logger } from '../../model/logger.ts';
import { invalidOption, readFields } from '../../model/option-fields.ts';
import { checkName } from '../../model/values/names.ts';
import { unavailable, withTimeout } from '../http/errors.ts';
import { roles, type Role } from '../routes/route.ts';
import { readDefinitions, type AllowedDefinitions } from './allowed-definitions.ts';

/** A token that the server accepts, with the rights of its bearer. */
export interface ServerToken {
  /** Recorded as the actor of operations and the owner of sessions. Unique among the tokens. */
  readonly name: string;
  /** `read`, `operate` or `admin`; each includes those before it. */
  readonly role: Role;
  /**
   * The SHA-256 of the token in hex, as returned by `createToken`. Pass two to rotate a token: the server accepts both
   * until you remove the old one.
   */
  readonly sha256: string | readonly string[];
  /**
   * Names of the orchestrations, tasks and flows that the token may use; `*` matches any text. At most 100. Default: all.
   * A restricted token gets 403 from routes that concern the whole store.
   */
  readonly definitions?: string | readonly string[] | undefined;
  /** Expiry. Default: never. */
  readonly expiresAt?: Date | number | undefined;
}

/** An authenticated caller and its rights. */
export interface Caller {
  /** `null` if the server has no authentication. */
  readonly name: string | null;
  readonly role: Role;
  /** Allowed definitions. Absent: all. */
  readonly definitions?: AllowedDefinitions | undefined;
}

/** The actor of requests to a server without authentication that name none. */
const anonymous = 'anonymous';

/** Returns the actor to record: the name of the token, then the actor that the caller gave. */
export function actorOf({ name }: Caller, given: string | undefined): string {
  if (name === null) return given ?? anonymous;
  return given === undefined ? name : `${name}: ${given}`;
}

interface CheckedToken extends Caller {
  readonly digests: readonly Buffer[];
  readonly expiresAt: number;
}

/** Creates a token of 32 random bytes and its hash for `ServerToken.sha256`. */
export function createToken(): { readonly token: string; readonly sha256: string } {
  const token = `perdure_${randomBytes(32).toString('base64url')}`;
  return { token, sha256: digestOf(token).toString('hex') };
}

/** A static list of tokens. Throws `INVALID_OPTION` for an invalid list. */
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
        'Two tokens have the same `name`. Use unique names; to rotate a token, pass both hashes as its `sha256`.',
      );
    }
    const digests = this.#tokens.flatMap((one) =>
      one.digests.map((digest) => digest.toString('hex')),
    );
    if (new Set(digests).size < digests.length) {
      throw new PerdureError(
        'INVALID_OPTION',
        'Two tokens have the same `sha256`. Create each one with createToken().',
      );
    }
  }

  /** Returns the caller of a token by its SHA-256. Compares every hash, so that the time does not depend on the match. */
  find(digest: Buffer): Caller | undefined {
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

/** Returns the current list of accepted tokens. */
export type LoadTokens = () => readonly ServerToken[] | Promise<readonly ServerToken[]>;

export interface TokenSourceParams {
  readonly load: LoadTokens;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Maximum age of a list before it is loaded again. */
  readonly maxAgeMs: number;
  /** Timeout of one call, in milliseconds. Default: 10 s. */
  readonly loadTimeoutMs?: number | undefined;
}

// An unknown token may have just been added. Reload for it, but at most once per second.
const minReloadMs = 1_000;
// While the source fails, the last list stays in use for this long.
const maxStaleMs = 5 * 60_000;
const defaultLoadTimeoutMs = 10_000;

/** Tokens from a function. The list is loaded again when it is older than `maxAgeMs`. */
export class TokenSource {
  readonly #params: TokenSourceParams;
  #tokens: Tokens | undefined;
  #loadedAt = Number.NEGATIVE_INFINITY;
  #triedAt = Number.NEGATIVE_INFINITY;
  #loading: Promise<void> | undefined;

  constructor(params: TokenSourceParams) {
    this.#params = params;
  }

  /** Loads the first list. Rejects if the call fails or the list is invalid. */
  async start(): Promise<void> {
    await this.#load();
  }

  /** Returns the caller of a token by its SHA-256. For an unknown token, loads a newer list first. */
  async find(digest: Buffer): Promise<Caller | undefined> {
    const found = (await this.#noOlderThan(this.#params.maxAgeMs)).find(digest);
    return found ?? (await this.#noOlderThan(minReloadMs)).find(digest);
  }

  async #noOlderThan(maxAgeMs: number): Promise<Tokens> {
    const nowMs = performance.now();
    const isOld = nowMs - this.#loadedAt > maxAgeMs;
    const mayTry = nowMs - this.#triedAt > Math.min(maxAgeMs, minReloadMs);
    if (this.#loading !== undefined ? isOld : isOld && mayTry) await this.#tryLoad();
    if (this.#tokens !== undefined && performance.now() - this.#loadedAt < maxStaleMs) {
      return this.#tokens;
    }
    throw unavailable('The server cannot load its tokens.');
  }

  async #tryLoad(): Promise<void> {
    try {
      this.#loading ??= this.#load();
      await this.#loading;
    } catch (error) {
      this.#params.logger.error({ error }, 'loading tokens failed');
    } finally {
      this.#loading = undefined;
    }
  }

  async #load(): Promise<void> {
    this.#triedAt = performance.now();
    const { load, clock, loadTimeoutMs: ms = defaultLoadTimeoutMs } = this.#params;
    const startedAt = this.#triedAt;
    const timeout = (): Error => new Error(`\`tokens()\` took longer than ${ms} ms.`);
    this.#tokens = new Tokens(await withTimeout(load(), ms, timeout), clock);
    // The age counts from the start of the call: the list may miss changes made while it ran.
    this.#loadedAt = startedAt;
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

/** Reads the name and rights of a caller. Throws `INVALID_OPTION` for invalid values. */
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
// The hash of an unset token, for example of an empty environment variable.
const emptyHash = digestOf('').toString('hex');

function readHashes(sha256: unknown, what: string): readonly Buffer[] {
  const hashes: readonly unknown[] = Array.isArray(sha256) ? sha256 : [sha256];
  // The messages omit the value: it may be the token itself.
  if (hashes.length === 0 || hashes.length > maxHashes) {
    throw new PerdureError(
      'INVALID_OPTION',
      `Invalid \`${what}.sha256\`: it has ${hashes.length} hashes. Pass one, or two to rotate the token.`,
    );
  }
  return hashes.map((hash) => {
    if (typeof hash !== 'string' || !/^[0-9a-f]{64}$/i.test(hash)) {
      throw new PerdureError(
        'INVALID_OPTION',
        `Invalid \`${what}.sha256\`: must be 64 hexadecimal digits. Use the \`sha256\` returned by createToken().`,
      );
    }
    if (hash.toLowerCase() === emptyHash) {
      throw new PerdureError(
        'INVALID_OPTION',
        `Invalid \`${what}.sha256\`: it is the hash of an empty token. Create a token with createToken().`,
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

/** Returns the SHA-256 of a token. */
export function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
