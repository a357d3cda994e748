import { describe, expect, it } from 'vitest';
import { dueTicks, maxTicks, onTimeMs, everyTiming, type CatchUp } from './ticks.ts';

const minute = 60_000;
const timing = everyTiming(minute, 0);
const policies: readonly CatchUp[] = ['skip', 'one', 'all'];

describe('the ticks that are due', () => {
  it.each(policies)('include one that is on time, under %s', (catchUp) => {
    for (const lateMs of [0, 1, onTimeMs - 1]) {
      const nowMs = 5 * minute + lateMs;
      expect(dueTicks({ timing, catchUp, nextAt: 5 * minute, nowMs })).toEqual({
        ticks: [5 * minute],
        nextAt: 6 * minute,
      });
    }
  });

  it('leave out what was missed, are one for it, or all of it, as the policy says', () => {
    const nowMs = 8 * minute + 30_000;
    const due = (catchUp: CatchUp) => dueTicks({ timing, catchUp, nextAt: 5 * minute, nowMs });
    expect(due('skip')).toEqual({ ticks: [], nextAt: 9 * minute });
    expect(due('one')).toEqual({ ticks: [8 * minute], nextAt: 9 * minute });
    expect(due('all')).toEqual({
      ticks: [5, 6, 7, 8].map((n) => n * minute),
      nextAt: 9 * minute,
    });
  });

  it('include the one on time beside what was missed', () => {
    const nowMs = 8 * minute + 5;
    const due = (catchUp: CatchUp) =>
      dueTicks({ timing, catchUp, nextAt: 5 * minute, nowMs }).ticks.map((tick) => tick / minute);
    expect(due('skip')).toEqual([8]);
    expect(due('one')).toEqual([7, 8]);
    expect(due('all')).toEqual([5, 6, 7, 8]);
  });

  it('come in portions when very many were missed, and none is left out', () => {
    const nowMs = 2_500 * minute;
    const ticks: number[] = [];
    let nextAt: number | null = minute;
    for (let rounds = 0; nextAt !== null && nextAt <= nowMs; rounds += 1) {
      const due = dueTicks({ timing, catchUp: 'all', nextAt, nowMs });
      expect(due.ticks.length).toBeLessThanOrEqual(maxTicks);
      expect(rounds).toBeLessThan(5);
      ticks.push(...due.ticks);
      ({ nextAt } = due);
    }
    expect(ticks).toEqual(Array.from({ length: 2_500 }, (_, n) => (n + 1) * minute));
  });

  it('cost the same after years as after minutes, unless all of them are wanted', () => {
    const everySecond = everyTiming(1_000, 0);
    const nowMs = 10 * 365 * 86_400_000;
    const before = performance.now();
    for (const catchUp of ['skip', 'one'] as const) {
      const { ticks, nextAt } = dueTicks({ timing: everySecond, catchUp, nextAt: 1_000, nowMs });
      expect(ticks.length).toBeLessThanOrEqual(12);
      expect(nextAt).toBe(nowMs + 1_000);
    }
    // Tick by tick it would take minutes.
    expect(performance.now() - before).toBeLessThan(5_000);
  });
});
