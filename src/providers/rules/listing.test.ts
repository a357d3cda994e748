import { expect, it } from 'vitest';
import { nextSlice } from './listing.ts';

it.each([
  ['doubles while the slices are fast', 500, { begun: 0, sliceBegun: 0, nowMs: 1 }, 1_000],
  ['is at most the largest', 2_000, { begun: 0, sliceBegun: 0, nowMs: 1 }, 2_000],
  ['fits into the time that is left', 1_000, { begun: 0, sliceBegun: 0, nowMs: 10 }, 500],
  ['is small when no time is left', 2_000, { begun: 0, sliceBegun: 10, nowMs: 40 }, 250],
  [
    'is as large as the smallest that is given',
    2_000,
    { begun: 0, sliceBegun: 10, smallest: 1_000, nowMs: 40 },
    1_000,
  ],
  ['doubles if no time has passed', 500, { begun: 0, sliceBegun: 3, nowMs: 3 }, 1_000],
])('a slice %s', (_, rows, times, expected) => {
  expect(nextSlice(rows, { ...times, largest: 2_000 })).toBe(expected);
});
