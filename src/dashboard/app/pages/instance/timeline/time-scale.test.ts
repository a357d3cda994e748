import { expect, test } from 'vitest';
import { makeScale } from './time-scale.ts';

const hour = 3_600_000;

test('without idle time the scale is linear', () => {
  const scale = makeScale(1_000, 2_000, [{ from: 1_000, to: 2_000 }], { collapse: true });
  expect([1_000, 1_250, 1_500, 2_000].map((at) => scale.x(at))).toEqual([0, 25, 50, 100]);
  expect(scale.idle).toEqual([]);
});

test('a wait of hours is narrowed, and the seconds around it stay visible', () => {
  const busy = [
    { from: 0, to: 5_000 },
    { from: 4 * hour, to: 4 * hour + 60_000 },
  ];
  const scale = makeScale(0, 4 * hour + 60_000, busy, { collapse: true });
  expect(scale.idle).toHaveLength(1);
  expect(scale.idle[0]?.width).toBe(6);
  expect(scale.x(5_000)).toBeGreaterThan(15);
  expect(scale.segments).toHaveLength(2);
});

test('without collapse the same wait takes its share of the track', () => {
  const busy = [{ from: 0, to: 5_000 }];
  const scale = makeScale(0, 4 * hour, busy, { collapse: false });
  expect(scale.idle).toEqual([]);
  expect(scale.x(5_000)).toBeLessThan(0.1);
});

test('positions never decrease with time and stay on the track', () => {
  const busy = [0, 1, 2, 3].map((n) => ({ from: n * hour, to: n * hour + 10_000 }));
  const scale = makeScale(0, 3 * hour + 10_000, busy, { collapse: true, until: 4 * hour });
  const places = Array.from({ length: 500 }, (_, n) => scale.x((n / 499) * 4 * hour));
  expect(places).toEqual(places.toSorted((a, b) => a - b));
  expect(places[0]).toBe(0);
  expect(places.at(-1)).toBe(100);
});

test('at() is the inverse of x()', () => {
  const busy = [
    { from: 0, to: 5_000 },
    { from: hour, to: hour + 5_000 },
  ];
  const scale = makeScale(0, hour + 5_000, busy, { collapse: true });
  for (const time of [0, 2_500, 5_000, hour / 2, hour, hour + 4_000]) {
    expect(scale.at(scale.x(time))).toBeCloseTo(time, 3);
  }
});

test('planned time has a fixed share of the track', () => {
  const scale = makeScale(0, 10_000, [], { collapse: false, until: 90_000 });
  expect(scale.x(10_000)).toBe(84);
  expect(scale.x(90_000)).toBe(100);
  expect(scale.end).toBe(90_000);
});

test('times that are no numbers, or end before they start, give places on the track', () => {
  for (const scale of [
    makeScale(Number.NaN, Number.NaN, [], { collapse: true, until: Number.NaN }),
    makeScale(5_000, 1_000, [{ from: 9_000, to: 2_000 }], { collapse: true }),
  ]) {
    for (const at of [-1e15, 0, 5_000, 1e15, Number.NaN]) {
      expect(scale.x(at)).toBeGreaterThanOrEqual(0);
      expect(scale.x(at)).toBeLessThanOrEqual(100);
    }
  }
});

test('grid lines lie inside their segment, at round offsets', () => {
  const { ticks } = makeScale(0, 60_000, [{ from: 0, to: 60_000 }], { collapse: true });
  expect(ticks.map(({ offset }) => offset)).toEqual([10_000, 20_000, 30_000, 40_000, 50_000]);
  expect(ticks[0]?.x).toBeCloseTo(16.67, 1);
});
