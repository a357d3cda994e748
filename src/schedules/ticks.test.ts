import { describe, expect, it } from 'vitest';
import { limitTiming, everyTiming } from './ticks.ts';

describe('an interval', () => {
  const timing = everyTiming(10, 100);

  it('counts from its anchor, which is no tick itself', () => {
    expect([0, 99, 100, 109, 110, 111].map((at) => timing.next(at))).toEqual([
      110, 110, 110, 110, 120, 120,
    ]);
    expect([0, 100, 109, 110, 119, 120].map((at) => timing.previous(at))).toEqual([
      null,
      null,
      null,
      110,
      110,
      120,
    ]);
  });
});

describe('the part of a timing', () => {
  const timing = limitTiming(everyTiming(10, 0), 30, 50);

  it('begins and ends at its bounds, both included', () => {
    expect([-100, 29, 30, 40, 50, 60].map((at) => timing.next(at))).toEqual([
      30,
      30,
      40,
      50,
      null,
      null,
    ]);
    expect([20, 30, 45, 50, 1_000].map((at) => timing.previous(at))).toEqual([
      null,
      30,
      40,
      50,
      50,
    ]);
  });
});
