import { expect, test } from 'vitest';
import { inputHash } from './input-hash.ts';
import { encodePayload } from './payload.ts';

const hashOf = (value: unknown) => inputHash(encodePayload(value, 'input'));
const long = 'x'.repeat(100);

test('equal inputs have equal hashes regardless of key order', () => {
  expect(hashOf({ a: 1, b: 2 })).toBe(hashOf({ b: 2, a: 1 }));
  expect(hashOf({ a: long, b: 2 })).toBe(hashOf({ b: 2, a: long }));
});

test('different inputs have different hashes', () => {
  const inputs = [
    undefined,
    null,
    '',
    0,
    '0',
    [],
    {},
    [[]],
    { a: 1 },
    { a: '1' },
    long,
    `${long}x`,
    [long],
  ];
  expect(new Set(inputs.map(hashOf)).size).toBe(inputs.length);
});

test('an input that looks like the hash of another input has a different hash', () => {
  const hashed = hashOf(long);
  expect(hashOf(hashed)).not.toBe(hashed);
  expect(hashOf(hashed.slice(1))).not.toBe(hashed);
});

test('the hash of a large input is short', () => {
  expect(hashOf(long.repeat(1_000)).length).toBe(44);
});
