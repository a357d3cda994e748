import { describe, expect, it } from 'vitest';
import { dueTicks, everyTiming, limitTiming, maxTicks, onTimeMs, type CatchUp } from './ticks.ts';

const minute = 60_000;
const policies: readonly CatchUp[] = ['skip', 'one', 'all'];

describe('everyTiming', () => {
  const timing = everyTiming(10, 100);

  it('counts from the anchor, which is not a tick', () => {
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

describe('limitTiming', () => {
  const timing = limitTiming(everyTiming(10, 0), 30, 50);

  it('includes both bounds', () => {
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

describe('dueTicks', () => {
  const timing = everyTiming(minute, 0);

  it.each(policies)('fires a tick less than 10 s late under catchUp %s', (catchUp) => {
    for (const lateMs of [0, 1, onTimeMs - 1]) {
      const nowMs = 5 * minute + lateMs;
      expect(dueTicks({ timing, catchUp, nextAt: 5 * minute, nowMs })).toEqual({
        ticks: [5 * minute],
        nextAt: 6 * minute,
      });
    }
  });

  it('skips missed ticks, fires one for all of them, or fires each, by policy', () => {
    const nowMs = 8 * minute + 30_000;
    const due = (catchUp: CatchUp) => dueTicks({ timing, catchUp, nextAt: 5 * minute, nowMs });
    expect(due('skip')).toEqual({ ticks: [], nextAt: 9 * minute });
    expect(due('one')).toEqual({ ticks: [8 * minute], nextAt: 9 * minute });
    expect(due('all')).toEqual({
      ticks: [5, 6, 7, 8].map((n) => n * minute),
      nextAt: 9 * minute,
    });
  });

  it('fires the tick that is on time in addition to the missed ones', () => {
    const nowMs = 8 * minute + 5;
    const due = (catchUp: CatchUp) =>
      dueTicks({ timing, catchUp, nextAt: 5 * minute, nowMs }).ticks.map((tick) => tick / minute);
    expect(due('skip')).toEqual([8]);
    expect(due('one')).toEqual([7, 8]);
    expect(due('all')).toEqual([5, 6, 7, 8]);
  });

  it('splits many missed ticks into batches without losing any', () => {
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

  it('takes constant time after years of missed ticks under skip and one', () => {
    const everySecond = everyTiming(1_000, 0);
    const nowMs = 10 * 365 * 86_400_000;
    const before = performance.now();
    for (const catchUp of ['skip', 'one'] as const) {
      const { ticks, nextAt } = dueTicks({ timing: everySecond, catchUp, nextAt: 1_000, nowMs });
      expect(ticks.length).toBeLessThanOrEqual(12);
      expect(nextAt).toBe(nowMs + 1_000);
    }
    // Iterating tick by tick would take minutes.
    expect(performance.now() - before).toBeLessThan(5_000);
  });
});
