import { expect, it } from 'vitest';
import { systemClock } from '../../model/clock.ts';
import { StoreClock } from './store-clock.ts';

const ahead = (clock: StoreClock): number => clock.now() - systemClock.now();

it('goes with the machine until it knows better', () => {
  expect(Math.abs(ahead(new StoreClock()))).toBeLessThanOrEqual(2);
});

it.each([3_600_000, -3_600_000])('goes with a database whose clock is %d ms ahead', (ms) => {
  const clock = new StoreClock();
  clock.observe(systemClock.now() + ms);
  expect(Math.abs(ahead(clock) - ms)).toBeLessThanOrEqual(2);
});

it('believes the quickest answer, for a slow one is old when it comes', () => {
  const clock = new StoreClock();
  clock.observe(systemClock.now() + 1_000);
  clock.observe(systemClock.now() - 500);
  expect(Math.abs(ahead(clock) - 1_000)).toBeLessThanOrEqual(2);
});

it('wakes at a time of the database', async () => {
  const clock = new StoreClock();
  clock.observe(systemClock.now() - 3_600_000);
  await new Promise<void>((resolve) => void clock.setAlarm(clock.now() + 5, resolve));
  const cancel = clock.setAlarm(clock.now() + 60_000, () => expect.unreachable());
  cancel();
});
