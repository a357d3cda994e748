import { afterEach, describe, expect, test, vi } from 'vitest';
import { systemClock } from './clock.ts';

afterEach(() => vi.useRealTimers());

const rings = (delayMs: number) =>
  new Promise<number>((resolve) => {
    systemClock.setTimer(delayMs, () => resolve(systemClock.monotonic()));
  });

describe('a timer of the system clock', () => {
  test('fires on time, never early', async () => {
    const started = systemClock.monotonic();
    const delays = Array.from({ length: 20 }, (_, index) => index / 2);
    const fired = await Promise.all(delays.map(rings));
    for (const [index, delay] of delays.entries()) {
      expect(fired[index]).toBeGreaterThanOrEqual(started + delay);
      expect(fired[index]).toBeLessThan(started + delay + 2_000);
    }
  });

  test.each([0, -1_000])(
    'with a delay of %d fires asynchronously, without delay',
    async (delay) => {
      let returned = false;
      await new Promise<void>((resolve) => {
        systemClock.setTimer(delay, () => {
          expect(returned).toBe(true);
          resolve();
        });
        returned = true;
      });
    },
  );

  test('with a delay beyond the limit of setTimeout does not fire early', async () => {
    let fired = false;
    const cancel = systemClock.setTimer(100 * 86_400_000, () => (fired = true));
    await rings(20);
    cancel();
    expect(fired).toBe(false);
  });

  test('does not fire after a cancel', async () => {
    let fired = false;
    systemClock.setTimer(5, () => (fired = true))();
    await rings(20);
    expect(fired).toBe(false);
  });

  test('is not affected by replaced globals', async () => {
    vi.useFakeTimers();
    const now = systemClock.now();
    expect(Math.abs(now - performance.timeOrigin - performance.now())).toBeLessThan(86_400_000);
    const monotonic = systemClock.monotonic();
    await rings(2);
    expect(systemClock.monotonic()).toBeGreaterThanOrEqual(monotonic + 2);
  });
});
