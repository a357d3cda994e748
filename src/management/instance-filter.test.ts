import { describe, expect, it } from 'vitest';
import { matchNames, readNamePatterns } from './instance-filter.ts';

describe('a pattern of names', () => {
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
  ])('%s and %s: %s', (pattern, name, expected) => {
    expect(matchNames([pattern])(name)).toBe(expected);
  });

  it('matches any name when there is none, and any of several', () => {
    expect(matchNames(undefined)('x')).toBe(true);
    expect(matchNames(['a', 'b*'])('bc')).toBe(true);
    expect(matchNames(['a', 'b*'])('c')).toBe(false);
  });

  it('of many stars takes no longer for it', () => {
    const name = 'a'.repeat(250);
    const begun = performance.now();
    expect(matchNames([`${'a*'.repeat(100)}b`])(name)).toBe(false);
    // By going back at every star it would take longer than anyone lives.
    expect(performance.now() - begun).toBeLessThan(5_000);
  });

  it('is refused when it is no text', () => {
    expect(() => readNamePatterns('name', 5)).toThrow(/must be a string/);
    expect(() => readNamePatterns('name', [])).toThrow(/empty/);
    expect(() => readNamePatterns('name', [''])).toThrow(/empty/);
  });
});
