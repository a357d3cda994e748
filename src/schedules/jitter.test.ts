import { describe, expect, it } from 'vitest';
import { cronTiming } from './cron.ts';
import { jitterTiming, nominalTick } from './jitter.ts';
import { everyTiming } from './ticks.ts';

describe('jitterTiming', () => {
  it.each([
    ['an interval', everyTiming(60_000, 0), 30_000],
    ['an interval that is shorter than the jitter', everyTiming(60_000, 0), 3_600_000],
    ['a cron expression with uneven gaps', cronTiming('0,1,45 * * * *', 'UTC'), 600_000],
  ])('delays each tick of %s by less than the jitter and the gap', (_what, timing, jitterMs) => {
    const delayed = jitterTiming(timing, { schedule: 's', jitterMs });
    let [tick, firesAt] = [timing.next(1_000_000), delayed.next(1_000_000)];
    if (firesAt !== null && tick !== null && firesAt < tick) firesAt = delayed.next(firesAt);
    const delays = new Set<number>();
    for (let count = 0; count < 200; count += 1) {
      if (tick === null || firesAt === null) throw new Error('no tick');
      const next = timing.next(tick) ?? Infinity;
      expect(firesAt - tick).toBeGreaterThanOrEqual(0);
      expect(firesAt - tick).toBeLessThan(Math.min(jitterMs, next - tick));
      expect(nominalTick(timing, firesAt, jitterMs)).toBe(tick);
      expect(delayed.previous(firesAt)).toBe(firesAt);
      expect(delayed.next(firesAt - 1)).toBe(firesAt);
      delays.add(firesAt - tick);
      [tick, firesAt] = [next, delayed.next(firesAt)];
    }
    expect(delays.size).toBeGreaterThan(50);
  });

  it('delays the same tick of different schedules differently, and of one schedule equally', () => {
    const timing = everyTiming(3_600_000, 0);
    const first = (schedule: string) =>
      jitterTiming(timing, { schedule, jitterMs: 3_600_000 }).next(0);
    expect(first('a')).toBe(first('a'));
    expect(new Set(['a', 'b', 'c', 'd'].map(first)).size).toBe(4);
  });
});
