import { randomToken } from '../../model/values/random-id.ts';

/** A lock token: the key of the locked row, by which it is found, and a secret, by which it is held. */
export interface LockToken {
  readonly key: number;
  readonly secret: string;
}

/** How many characters of a secret tell which process holds it. */
export const processIdLength = 8;

/**
 * Makes the secrets of one process; rows keep them. A secret begins with the id of the process, so the claims of a process
 * that died are found without a column of their own. 84 random bits follow.
 */
export class Secrets {
  readonly processId = randomToken().slice(0, processIdLength);

  next(): string {
    return this.processId + randomToken().slice(processIdLength);
  }
}

export function formatToken(key: number, secret: string): string {
  return `${key}.${secret}`;
}

/** Takes a token apart; one that no provider has made finds no row. */
export function parseToken(token: string): LockToken {
  const dot = token.indexOf('.');
  const key = dot < 1 ? Number.NaN : Number(token.slice(0, dot));
  return { key: Number.isSafeInteger(key) ? key : -1, secret: token.slice(dot + 1) };
}
