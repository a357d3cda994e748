import { describe, expect, it } from 'vitest';
import {
  clean,
  countOf,
  cut,
  formatAge,
  formatBytes,
  formatDuration,
  formatTime,
  widthOf,
} from './format.ts';

describe('formatDuration()', () => {
  it.each([
    [0, '0ms'],
    [999, '999ms'],
    [1_000, '1s'],
    [61_000, '1m 1s'],
    [3_600_000, '1h'],
    [90_000_000, '1d 1h'],
    [-5, '0ms'],
  ])('%i ms is %s', (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });
});

describe('formatAge()', () => {
  it('has the largest unit, for past and future times', () => {
    expect(formatAge(0, 90_000)).toBe('1m ago');
    expect(formatAge(7_200_000, 0)).toBe('in 2h');
  });
});

describe('numbers, times and bytes', () => {
  it('have separators, UTC and binary units', () => {
    expect(countOf(1, 'instance')).toBe('1 instance');
    expect(countOf(1284, 'instance')).toBe('1,284 instances');
    expect(formatTime(0)).toBe('1970-01-01 00:00:00Z');
    expect([0, 512, 1_536, 200 * 1024, 3 * 1024 ** 3].map(formatBytes)).toEqual([
      '0 B',
      '512 B',
      '1.5 KiB',
      '200 KiB',
      '3.0 GiB',
    ]);
  });
});

describe('clean()', () => {
  it('shows escapes, line breaks and bidirectional controls instead of sending them', () => {
    expect(clean('a\u001B[31mb')).toBe(String.raw`a\u{1b}[31mb`);
    expect(clean('a\nb\tc\r')).toBe(String.raw`a⏎b c\u{d}`);
    expect(clean('x\u202Ey\u2066z\u009B')).toBe(String.raw`x\u{202e}y\u{2066}z\u{9b}`);
    expect(clean('\uD800')).toBe(String.raw`\u{d800}`);
    expect(clean('Ada Łovelace 漢字 😀')).toBe('Ada Łovelace 漢字 😀');
  });
});

describe('widthOf() and cut()', () => {
  it('count wide characters as two columns and combining marks as none', () => {
    expect(widthOf('abc')).toBe(3);
    expect(widthOf('漢字')).toBe(4);
    expect(widthOf('e\u0301')).toBe(1);
    expect(cut('abcdef', 4)).toBe('abc…');
    expect(cut('漢字漢字', 5)).toBe('漢字…');
    expect(cut('abc', 3)).toBe('abc');
  });
});
