import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { toMs } from './duration.ts';

describe('a duration', () => {
  test.each<[number | string, number]>([
    [0, 0],
    [1_500, 1_500],
    ['250ms', 250],
    ['30s', 30_000],
    ['5m', 300_000],
    ['1h', 3_600_000],
    ['30d', 2_592_000_000],
    ['2w', 1_209_600_000],
    ['1.5h', 5_400_000],
    [' 10 s ', 10_000],
  ])('%j is %i milliseconds', (duration, ms) => {
    expect(toMs(duration)).toBe(ms);
  });

  test('with a fraction of a millisecond is rounded up', () => {
    expect(toMs(0.4)).toBe(1);
    expect(toMs('0.5ms')).toBe(1);
    expect(toMs(10.01)).toBe(11);
  });

  test('in decimals has no floating-point error', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1_000_000 }), (thousandths) => {
        expect(toMs(`${(thousandths / 1_000).toFixed(3)}s`)).toBe(thousandths);
      }),
    );
  });

  test('of minus zero is zero', () => {
    expect(Object.is(toMs(-0), 0)).toBe(true);
  });

  test.each<unknown>([
    -1,
    -0.1,
    Number.NaN,
    Infinity,
    31_556_952_000_001,
    '1001y',
    '60000w',
    '',
    '5',
    's',
    '-5s',
    '1h30m',
    '1e3s',
    '.5s',
    '5 S',
    'soon',
    '9'.repeat(100_000) + 's',
    null,
    undefined,
    true,
    10n,
    Symbol('s'),
    {},
    [],
    new Date(),
    Object.create(null),
    () => 5,
  ])('of %.40s throws INVALID_DURATION', (duration) => {
    expect(() => toMs(duration as string, 'timeout')).toThrow(
      expect.objectContaining({
        code: 'INVALID_DURATION',
        message: expect.stringMatching(/^Invalid `timeout` .{1,80}: use milliseconds/s) as string,
      }),
    );
  });
});
