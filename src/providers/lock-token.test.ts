import { expect, it } from 'vitest';
import { formatToken, newSecret, parseToken } from './lock-token.ts';

it('a token is taken apart into the key and the secret that it was made of', () => {
  const secret = newSecret();
  expect(parseToken(formatToken(42, secret))).toEqual({ key: 42, secret });
});

it.each(['', '.', 'abc', '.abc', 'x.abc', '1.5.abc', '99999999999999999999.a', 'Infinity.a'])(
  'a token that nobody made, %j, never has a secret that a row could have under its key',
  (token) => {
    const { key, secret } = parseToken(token);
    expect(key < 0 || !/^[\w-]{22}$/.test(secret)).toBe(true);
  },
);
