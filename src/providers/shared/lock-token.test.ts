import { expect, it } from 'vitest';
import { formatToken, parseToken, Secrets } from './lock-token.ts';

it('a token is taken apart into the key and the secret that it was made of', () => {
  const secret = new Secrets().next();
  expect(parseToken(formatToken(42, secret))).toEqual({ key: 42, secret });
});

it('the secrets of a process begin with its id, and no two of them are the same', () => {
  const [one, other] = [new Secrets(), new Secrets()];
  const secrets = Array.from({ length: 1_000 }, () => one.next());
  expect(new Set(secrets).size).toBe(1_000);
  expect(secrets.every((secret) => secret.startsWith(one.processId))).toBe(true);
  expect(one.processId).not.toBe(other.processId);
  expect(secrets[0]).toMatch(/^[\w-]{22}$/);
});

it.each(['', '.', 'abc', '.abc', 'x.abc', '1.5.abc', '99999999999999999999.a', 'Infinity.a'])(
  'a token that nobody made, %j, never has a secret that a row could have under its key',
  (token) => {
    const { key, secret } = parseToken(token);
    expect(key < 0 || !/^[\w-]{22}$/.test(secret)).toBe(true);
  },
);
