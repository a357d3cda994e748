import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compareVersions } from './definition.ts';

test.each([
  [['1', '2', '10']],
  [['1.9', '1.10', '2']],
  [['1', '1.0', '1.0.0', '1.0.1']],
  [['v1', 'v2', 'v10']],
  [['2.0.0-alpha', '2.0.0-alpha.2', '2.0.0-alpha.10', '2.0.0-beta', '2.0.0', '2.0.1-rc']],
  [['2026-01-31', '2026-02-01', '2026-11-15']],
  [['20261115120000123', '20261115120000124', '100000000000000000000']],
  [['01', '1', '02', '2']],
  [['a', 'b']],
])('compareVersions sorts %j in ascending order', (versions) => {
  expect(versions.toSorted(compareVersions)).toEqual(versions);
  expect(versions.toReversed().toSorted(compareVersions)).toEqual(versions);
});

test('compareVersions is a total order', () => {
  const version = fc.string({
    unit: fc.constantFrom('0', '1', '2', '9', '.', '-', 'a', 'v'),
    maxLength: 6,
  });
  fc.assert(
    fc.property(version, version, version, (a, b, c) => {
      expect(Math.sign(compareVersions(a, b))).toBe(-Math.sign(compareVersions(b, a)) + 0);
      expect(compareVersions(a, b) === 0).toBe(a === b);
      const [low, middle, high] = [a, b, c].toSorted(compareVersions) as [string, string, string];
      expect(compareVersions(low, middle)).toBeLessThanOrEqual(0);
      expect(compareVersions(middle, high)).toBeLessThanOrEqual(0);
      expect(compareVersions(low, high)).toBeLessThanOrEqual(0);
    }),
    { numRuns: 2_000 },
  );
});
