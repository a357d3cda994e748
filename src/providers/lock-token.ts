import { randomToken } from '../model/random-id.ts';

/** A lock token: the key of the locked row, by which it is found, and a secret, by which it is held. */
export interface LockToken {
  readonly key: number;
  readonly secret: string;
}

/** A fresh secret of 128 random bits; the row keeps this part. */
export const newSecret: () => string = randomToken;

export function formatToken(key: number, secret: string): string {
  return `${key}.${secret}`;
}

/** Takes a token apart; one that no provider has made finds no row. */
export function parseToken(token: string): LockToken {
  const dot = token.indexOf('.');
  const key = dot < 1 ? Number.NaN : Number(token.slice(0, dot));
  return { key: Number.isSafeInteger(key) ? key : -1, secret: token.slice(dot + 1) };
}
