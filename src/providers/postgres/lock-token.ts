import { randomToken } from '../../model/random-id.ts';

/** A lock token: the key of the locked row, by which it is found, and a secret, by which it is held. */
export interface LockToken {
  readonly key: number;
  readonly secret: string;
}

/** A fresh secret of 128 random bits; the row keeps this part. */
export const newSecret: () => string = randomToken;

const taskMark = 't';
const taskSecretLength = newSecret().length + taskMark.length;

/** Marks a secret as that of a task run, so that an ack need not look for what it settles. A hint, and no more. */
export function newTaskSecret(secret: string): string {
  return `${taskMark}${secret}`;
}

/** Says whether a secret is marked as that of a task run. */
export function isTaskSecret(secret: string): boolean {
  return secret.length === taskSecretLength && secret.startsWith(taskMark);
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
