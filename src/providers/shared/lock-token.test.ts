import { expect, it } from 'vitest';
import { replacePlatform } from '../../model/platform.ts';
import { formatToken, parseToken, Secrets } from './lock-token.ts';

it('parseToken returns the key and secret that formatToken was given', () => {
  const secret = new Secrets().next();
  expect(parseToken(formatToken(42, secret))).toEqual({ key: 42, secret });
});

it('Secrets generates unique secrets that start with the process id', () => {
  const [one, other] = [new Secrets(), new Secrets()];
  const secrets = Array.from({ length: 1_000 }, () => one.next());
  expect(new Set(secrets).size).toBe(1_000);
  expect(secrets.every((secret) => secret.startsWith(one.processId))).toBe(true);
  expect(one.processId).not.toBe(other.processId);
  expect(secrets[0]).toMatch(/^[\w-]{22}$/);
});

it('Secrets uses the process id of the platform while it has one', () => {
  const secrets = new Secrets();
  const own = secrets.processId;
  const restore = replacePlatform({ processId: () => 'caller__' });
  expect(secrets.next()).toMatch(/^caller__[\w-]{14}$/);
  restore();
  expect(secrets.processId).toBe(own);
});

it.each(['', '.', 'abc', '.abc', 'x.abc', '1.5.abc', '99999999999999999999.a', 'Infinity.a'])(
  'parseToken of the invalid token %j matches no row',
  (token) => {
    const { key, secret } = parseToken(token);
    expect(key < 0 || !/^[\w-]{22}$/.test(secret)).toBe(true);
  },
);
