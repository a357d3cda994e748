import { platform } from '../../model/platform.ts';
import { randomToken } from '../../model/values/random-id.ts';

/** A lock token: the key of the locked row, and a secret that proves the claim. */
export interface LockToken {
  readonly key: number;
  readonly secret: string;
}

/** The number of leading characters of a secret that identify its process. */
export const processIdLength = 8;

/**
 * Generates the secrets of one process.
 * A secret starts with the id of the process, so the claims of a dead process are found without a column.
 * 84 random bits follow.
 */
export class Secrets {
  readonly #ownId = randomToken().slice(0, processIdLength);

  /** The first characters of the next secret. Differs between calls only in a simulation. */
  get processId(): string {
    return platform.processId() ?? this.#ownId;
  }

  next(): string {
    return this.processId + randomToken().slice(processIdLength);
  }
}

export function formatToken(key: number, secret: string): string {
  return `${key}.${secret}`;
}

/** Parses a token. An invalid one yields a key and secret that match no row. */
export function parseToken(token: string): LockToken {
  const dot = token.indexOf('.');
  const key = dot < 1 ? Number.NaN : Number(token.slice(0, dot));
  return { key: Number.isSafeInteger(key) ? key : -1, secret: token.slice(dot + 1) };
}
