import { afterEach, expect, it, vi } from 'vitest';
import { toEpochMs } from './epoch-time.ts';

afterEach(() => vi.restoreAllMocks());

it('toEpochMs() follows a step of the wall clock, and not its jitter', () => {
  const hourMs = 3_600_000;
  const before = toEpochMs(1_000);
  expect(Math.abs(before - performance.timeOrigin - 1_000)).toBeLessThan(1_000);
  const now = Date.now.bind(Date);
  vi.spyOn(Date, 'now').mockImplementation(() => now() + hourMs);
  const after = toEpochMs(1_000);
  expect(Math.abs(after - before - hourMs)).toBeLessThan(200);
  expect(toEpochMs(1_000)).toBe(after);
});
