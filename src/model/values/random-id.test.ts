import { expect, test } from 'vitest';
import { checkInstanceId } from './names.ts';
import { randomToken, timeOrderedId } from './random-id.ts';

test('tokens have 128 random bits and do not repeat across refills of the pool', () => {
  const tokens = Array.from({ length: 20_000 }, randomToken);
  expect(new Set(tokens).size).toBe(tokens.length);
  for (const token of tokens) expect(token).toMatch(/^[\w-]{22}$/);
});

test('every bit of a token is uniformly distributed', () => {
  const ones = Array.from({ length: 128 }, () => 0);
  const rounds = 4_000;
  for (let round = 0; round < rounds; round++) {
    const bytes = Buffer.from(randomToken(), 'base64url');
    for (let bit = 0; bit < 128; bit++) ones[bit]! += (bytes[bit >> 3]! >> (bit & 7)) & 1;
  }
  // Eight standard deviations.
  for (const count of ones)
    expect(Math.abs(count - rounds / 2)).toBeLessThan(8 * Math.sqrt(rounds / 4));
});

test('generated ids sort by creation time', () => {
  const times = [0, 1, 35, 36, 999, 1_700_000_000_000, 1_763_164_800_000, 1_763_164_800_001, 4e12];
  const ids = times.map(timeOrderedId);
  expect(ids.toSorted()).toEqual(ids);
});

test('ids generated in one millisecond differ and are valid instance ids', () => {
  const ids = Array.from({ length: 5_000 }, () => timeOrderedId(1_763_164_800_000.7));
  expect(new Set(ids).size).toBe(ids.length);
  for (const id of ids) expect(checkInstanceId(id)).toHaveLength(26);
});
