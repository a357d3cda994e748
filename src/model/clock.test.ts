import { afterEach, describe, expect, test, vi } from 'vitest';
import { systemClock } from './clock.ts';

afterEach(() => vi.useRealTimers());

const rings = (atMs: number) =>
  new Promise<number>((resolve) => {
    systemClock.setAlarm(atMs, () => resolve(systemClock.now()));
  });

describe('an alarm of the system clock', () => {
  test('never rings before its time, and soon after', async () => {
    const started = systemClock.now();
    const times = Array.from({ length: 20 }, (_, index) => started + index / 2);
    const rang = await Promise.all(times.map(rings));
    for (const [index, time] of times.entries()) {
      expect(rang[index]).toBeGreaterThanOrEqual(time);
      expect(rang[index]).toBeLessThan(time + 2_000);
    }
  });

  test('for a time that has passed rings at once, but not inside the call', async () => {
    let returned = false;
    await new Promise<void>((resolve) => {
      systemClock.setAlarm(0, () => {
        expect(returned).toBe(true);
        resolve();
      });
      returned = true;
    });
  });

  test('for a time beyond what setTimeout can hold does not ring now', async () => {
    let rang = false;
    const takeBack = systemClock.setAlarm(
      systemClock.now() + 100 * 86_400_000,
      () => (rang = true),
    );
    await rings(systemClock.now() + 20);
    takeBack();
    expect(rang).toBe(false);
  });

  test('that was taken back does not ring', async () => {
    let rang = false;
    const now = systemClock.now();
    systemClock.setAlarm(now + 5, () => (rang = true))();
    await rings(now + 20);
    expect(rang).toBe(false);
  });

  test('does not notice that the globals were replaced', async () => {
    vi.useFakeTimers();
    const now = systemClock.now();
    expect(Math.abs(now - performance.timeOrigin - performance.now())).toBeLessThan(86_400_000);
    await rings(now + 2);
  });
});
