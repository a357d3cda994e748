import { expect, it } from 'vitest';
import { readKeys } from './screen.ts';
import { percentiles } from './snapshot.ts';

it('readKeys() separates arrows from letters and from a lone escape', () => {
  expect(readKeys('p\u001B[A\u001BOBx')).toEqual(['pause', 'up', 'down']);
  expect(readKeys('\u001B')).toEqual(['quit']);
  expect(readKeys('\u001B[1;5C\u0003')).toEqual(['interrupt']);
});

it('percentiles() merges the buckets of several minutes', () => {
  const minute = (maxMs: number, buckets: readonly { upToMs?: number; count: number }[]) => ({
    count: 0,
    sumMs: 0,
    maxMs,
    buckets,
  });
  expect(percentiles([])).toEqual({ count: 0 });
  const merged = percentiles([
    minute(8, [{ upToMs: 10, count: 18 }]),
    minute(700, [{ upToMs: 10, count: 1 }, { count: 1 }]),
  ]);
  expect(merged).toEqual({ count: 20, p50Ms: 10, p95Ms: 10 });
  expect(percentiles([minute(700, [{ count: 4 }])])).toEqual({ count: 4, p50Ms: 700, p95Ms: 700 });
});
