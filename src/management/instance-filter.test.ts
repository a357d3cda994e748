import { describe, expect, it } from 'vitest';
import { matchNames, readNamePatterns } from './instance-filter.ts';

describe('name patterns', () => {
  it.each([
    ['order', 'order', true],
    ['order', 'orders', false],
    ['order*', 'order', true],
    ['order*', 'orders', true],
    ['*order', 'reorder', true],
    ['*order', 'orders', false],
    ['*', '', true],
    ['a*b*c', 'abc', true],
    ['a*b*c', 'a-b-c', true],
    ['a*b*c', 'acb', false],
    ['ab*ba', 'aba', false],
    ['ab*ba', 'abba', true],
    ['a.c', 'abc', false],
    ['[a-z]', 'b', false],
  ])('%s matches %s: %s', (pattern, name, expected) => {
    expect(matchNames([pattern])(name)).toBe(expected);
  });

  it('no pattern matches any name, and several match any of their names', () => {
    expect(matchNames(undefined)('x')).toBe(true);
    expect(matchNames(['a', 'b*'])('bc')).toBe(true);
    expect(matchNames(['a', 'b*'])('c')).toBe(false);
  });

  it('a pattern with many stars takes linear time', () => {
    const name = 'a'.repeat(250);
    const startedAt = performance.now();
    expect(matchNames([`${'a*'.repeat(100)}b`])(name)).toBe(false);
    // Backtracking would take exponential time.
    expect(performance.now() - startedAt).toBeLessThan(5_000);
  });

  it('rejects a pattern that is not a non-empty string', () => {
    expect(() => readNamePatterns('name', 5)).toThrow(/must be a string/);
    expect(() => readNamePatterns('name', [])).toThrow(/empty/);
    expect(() => readNamePatterns('name', [''])).toThrow(/empty/);
  });
});
