import { afterEach, expect, it, vi } from 'vitest';
import { systemClock } from '../../../model/clock.ts';
import { StoreClock } from './store-clock.ts';

const ahead = (clock: StoreClock): number => clock.now() - systemClock.now();

afterEach(() => vi.restoreAllMocks());

it('equals the system clock before the first observation', () => {
  expect(Math.abs(ahead(new StoreClock()))).toBeLessThanOrEqual(5);
});

it.each([3_600_000, -3_600_000])('follows a database clock with an offset of %d ms', (ms) => {
  const clock = new StoreClock();
  clock.observe(systemClock.now() + ms, systemClock.monotonic());
  expect(Math.abs(ahead(clock) - ms)).toBeLessThanOrEqual(5);
});

it('ignores a slow response that is consistent with the estimate', () => {
  const clock = new StoreClock();
  clock.observe(systemClock.now() + 1_000, systemClock.monotonic());
  clock.observe(systemClock.now() + 500, systemClock.monotonic() - 2_000);
  expect(Math.abs(ahead(clock) - 1_000)).toBeLessThanOrEqual(5);
});

it('follows immediately after a failover to a database whose clock is behind', () => {
  const clock = new StoreClock();
  clock.observe(systemClock.now() + 60_000, systemClock.monotonic());
  clock.observe(systemClock.now() - 60_000, systemClock.monotonic());
  expect(Math.abs(ahead(clock) + 60_000)).toBeLessThanOrEqual(5);
});

it.each([3_600_000, -3_600_000])('is unaffected by a system clock step of %d ms', (ms) => {
  const clock = new StoreClock();
  const before = clock.now();
  const real = systemClock.now.bind(systemClock);
  vi.spyOn(systemClock, 'now').mockImplementation(() => real() + ms);
  expect(clock.now() - before).toBeLessThan(2_000);
  expect(clock.now()).toBeGreaterThanOrEqual(before);
});
