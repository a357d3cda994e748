import { describe, expect, it } from 'vitest';
import type { Limits, RateLimit } from '../contract/limits.ts';
import {
  allowance,
  checkLane,
  checkLimits,
  chooseDeclaration,
  chooseFairly,
  gcraOf,
  holdingLimit,
  isTatAhead,
  latestTat,
  limitedShare,
  mergeLimits,
  mergeOverride,
  nextTokenAt,
  takeTokens,
  tokensAt,
  virtualCost,
} from './limits.ts';

const rate = (limit: number, perMs: number, burst = 0): RateLimit => ({
  limit,
  perMs,
  burst,
  perKey: false,
});

describe('figures', () => {
  it.each<[string, Limits]>([
    ['zero', { global: 0 }],
    ['negative', { perKey: -1 }],
    ['fractional', { global: 1.5 }],
    ['huge', { global: 1_000_001 }],
    ['not a number', { global: Number.NaN }],
    ['a rate of zero', { rate: rate(0, 1_000) }],
    ['a period of zero', { rate: rate(1, 0) }],
    ['a fractional period', { rate: rate(1, 0.5) }],
    ['a period above 31 days', { rate: rate(1, 2_678_400_001) }],
    ['a negative burst', { rate: rate(1, 1_000, -1) }],
    ['a burst of years', { rate: rate(1, 2_678_400_000, 1_000) }],
  ])('checkLimits() rejects %s', (_, limits) => {
    expect(() => checkLimits(limits)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }));
  });

  it('checkLimits() accepts odd periods, and removed figures', () => {
    checkLimits({ global: 1, perKey: 1_000_000, rate: rate(7, 333, 10) });
    checkLimits({ global: null, perKey: null, rate: null });
  });

  it.each([
    { key: '', weight: 1 },
    { key: 'x'.repeat(10_000), weight: 1 },
    { key: 'a', weight: 0 },
    { key: 'a', weight: 101 },
    { key: 'a', weight: 1.5 },
  ])('checkLane() rejects %j', (lane) => {
    expect(() => checkLane(lane)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }));
  });

  it('figures of an operator replace declared ones, and null removes a limit', () => {
    const declared = { global: 10, perKey: 2 };
    expect(mergeLimits(declared, null)).toEqual(declared);
    expect(mergeLimits(declared, { global: 5 })).toEqual({ global: 5, perKey: 2 });
    expect(mergeLimits(declared, { global: null, rate: rate(1, 1_000) })).toEqual({
      perKey: 2,
      rate: rate(1, 1_000),
    });
  });

  it('a second change keeps the figures of the first, and a reset deletes all', () => {
    const first = mergeOverride(null, { global: 5 });
    expect(mergeOverride(first, { perKey: null })).toEqual({ global: 5, perKey: null });
    expect(mergeOverride(first, null)).toBeNull();
    expect(mergeOverride(null, {})).toBeNull();
  });

  it('the build that declared last counts, and builds with other limits are contradictions', () => {
    const of = (buildId: string, firstAt: number, limits: Limits) => ({ buildId, firstAt, limits });
    const newest = of('b', 2, { global: 1 });
    const [same, other] = [of('a', 1, { global: 1 }), of('c', 0, { global: 2 })];
    const { chosen, contradictions } = chooseDeclaration([newest, same, other]);
    expect(chosen).toBe(newest);
    expect(contradictions).toEqual([other]);
    expect(chooseDeclaration([]).chosen).toBeUndefined();
  });
});

describe('rates', () => {
  it('an idle rate has burst + 1 tokens, then one per interval', () => {
    const gcra = gcraOf(rate(10, 1_000, 4));
    expect(tokensAt(gcra, 0, 5_000)).toBe(5);
    const tat = takeTokens(gcra, 0, 5_000, 5);
    expect(tokensAt(gcra, tat, 5_000)).toBe(0);
    expect(nextTokenAt(gcra, tat, 5_000)).toBe(5_100);
    expect(tokensAt(gcra, tat, 5_099)).toBe(0);
    expect(tokensAt(gcra, tat, 5_100)).toBe(1);
    expect(tokensAt(gcra, tat, 5_400)).toBe(4);
    expect(tokensAt(gcra, tat, 60_000)).toBe(5);
  });

  it('at most limit + burst tokens are taken in any window of the period', () => {
    for (const [limit, perMs, burst] of [
      [7, 333, 2],
      [100, 1_000, 10],
      [3, 100, 0],
      [1, 50, 3],
    ] as const) {
      const gcra = gcraOf(rate(limit, perMs, burst));
      const taken: number[] = [];
      let tat = 0;
      for (let now = 1_000; now < 1_000 + 5 * perMs; now++) {
        const count = tokensAt(gcra, tat, now);
        if (count === 0) continue;
        tat = takeTokens(gcra, tat, now, count);
        for (let one = 0; one < count; one++) taken.push(now);
      }
      const most = Math.max(
        ...taken.map((from) => taken.filter((at) => at >= from && at < from + perMs).length),
      );
      expect(most).toBeLessThanOrEqual(limit + burst);
      expect(taken.length).toBeGreaterThanOrEqual(4 * limit);
    }
  });

  it('latestTat() is the time that a claim of all tokens leaves', () => {
    for (const gcra of [gcraOf(rate(10, 1_000, 4)), gcraOf(rate(7, 333))]) {
      const tat = takeTokens(gcra, 0, 5_000, tokensAt(gcra, 0, 5_000));
      expect(latestTat(gcra, 5_000)).toBe(tat);
      expect(isTatAhead(gcra, tat, 5_000)).toBe(false);
      expect(isTatAhead(gcra, tat + 1, 5_000)).toBe(true);
    }
  });

  it('a clock that is set back by a day costs at most one interval', () => {
    const gcra = gcraOf(rate(10, 1_000, 4));
    const tat = takeTokens(gcra, 0, 86_400_000, 5);
    expect(tokensAt(gcra, tat, 1_000)).toBe(0);
    expect(nextTokenAt(gcra, tat, 1_000)).toBe(1_100);
    expect(isTatAhead(gcra, tat, 1_000)).toBe(true);
    const bounded = takeTokens(gcra, tat, 1_000, 0);
    expect(isTatAhead(gcra, bounded, 1_000)).toBe(false);
    expect(tokensAt(gcra, bounded, 1_100)).toBe(1);
  });
});

describe('allowance and holds', () => {
  it('allowance() is the least of free places, tokens and the maximum', () => {
    const at = { nowMs: 1_000, max: 50 };
    const idle = { running: 3, tatUs: 0 };
    expect(allowance({ global: 10, gcra: undefined }, idle, at)).toBe(7);
    expect(allowance({ global: 2, gcra: undefined }, idle, at)).toBe(0);
    expect(allowance({ global: undefined, gcra: gcraOf(rate(10, 1_000, 4)) }, idle, at)).toBe(5);
    expect(allowance({ global: undefined, gcra: undefined }, idle, at)).toBe(50);
  });

  it('holdingLimit() names the limit that is reached', () => {
    const free = { running: 0, tatUs: 0 };
    const limits = { global: 2, perKey: 1, rate: rate(1, 1_000) };
    expect(holdingLimit(limits, free, free, 5)).toBeNull();
    expect(holdingLimit(limits, free, { running: 1, tatUs: 0 }, 5)?.limit).toBe('perKey');
    expect(holdingLimit(limits, { running: 2, tatUs: 0 }, free, 5)?.limit).toBe('global');
    const used = { running: 0, tatUs: takeTokens(gcraOf(limits.rate), 0, 5, 1) };
    expect(holdingLimit(limits, used, free, 5)).toEqual({ limit: 'rate', max: 1, nextAt: 1_005 });
  });
});

describe('chooseFairly()', () => {
  const choose = (
    lanes: readonly { weight: number; vtime?: number; allowance?: number; items: number }[],
    max: number,
    vclock = 0,
    hasOthers = false,
  ) => {
    const left = lanes.map(({ items }) => items);
    const order: number[] = [];
    const given = lanes.map(({ weight, vtime = 0, allowance: own = Infinity }, index) => ({
      weight,
      vtime,
      allowance: own,
      index,
    }));
    const result = chooseFairly({
      lanes: given,
      max,
      vclock,
      hasOthers,
      take: ({ index }) => {
        const items = left[index] ?? 0;
        if (items === 0) return false;
        left[index] = items - 1;
        order.push(index);
        return true;
      },
    });
    return { ...result, order };
  };

  it('serves lanes with equal weights in turns', () => {
    const { order } = choose(
      [0, 1, 2].map(() => ({ weight: 1, items: 9 })),
      6,
    );
    expect(order).toEqual([0, 1, 2, 0, 1, 2]);
  });

  it('divides by weight', () => {
    const lanes = [
      { weight: 3, items: 1_000 },
      { weight: 1, items: 1_000 },
      { weight: 1, items: 1_000 },
    ];
    expect(choose(lanes, 500).shares.map(({ taken }) => taken)).toEqual([300, 100, 100]);
  });

  it('with other lanes that were not read, no lane gets ahead of them', () => {
    const lanes = [
      { weight: 1, vtime: 0, items: 0 },
      { weight: 3, vtime: 0, items: 9 },
      { weight: 1, vtime: virtualCost(1), items: 9 },
    ];
    expect(choose(lanes, 9, 0, true).order).toEqual([1, 1, 1, 1, 2]);
    expect(choose(lanes.slice(0, 2), 9, 0, true).order).toEqual([1]);
  });

  it('uses the whole batch if other lanes are empty or at their limits', () => {
    const lanes = [
      { weight: 1, items: 100 },
      { weight: 9, items: 2 },
      { weight: 9, items: 100, allowance: 3 },
    ];
    const { shares, taken } = choose(lanes, 50);
    expect(taken).toBe(50);
    expect(shares.map((share) => share.taken)).toEqual([45, 2, 3]);
    expect(shares.map(({ isEmpty }) => isEmpty)).toEqual([false, true, false]);
  });

  it('a new lane begins at the clock, without catching up on the past', () => {
    const first = choose([{ weight: 1, items: 1_000 }], 100);
    const old = first.shares[0]?.vtime ?? 0;
    const { order } = choose(
      [
        { weight: 1, vtime: 0, items: 100 },
        { weight: 1, vtime: old, items: 100 },
      ],
      6,
      first.vclock,
    );
    expect(order).toEqual([0, 0, 1, 0, 1, 0]);
  });

  it('equals the choice of the smallest virtual time, for random lanes', () => {
    let seed = 7;
    const random = (max: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return seed % max;
    };
    for (let round = 0; round < 200; round++) {
      const lanes = Array.from({ length: 1 + random(12) }, () => ({
        weight: 1 + random(9),
        vtime: random(4) * 720_720,
        allowance: random(6),
        items: random(8),
      }));
      const { order } = choose(lanes, 20);
      const state = lanes.map((lane) => ({ ...lane }));
      const expected: number[] = [];
      while (expected.length < 20) {
        const open = state.filter(({ items, allowance: own }) => items > 0 && own > 0);
        const [best] = open.toSorted((a, b) => a.vtime - b.vtime);
        if (best === undefined) break;
        best.items -= 1;
        best.allowance -= 1;
        best.vtime += Math.ceil(720_720 / best.weight);
        expected.push(state.indexOf(best));
      }
      expect(order).toEqual(expected);
    }
  });
});

it('limitedShare() leaves half of a claim to unlimited definitions, or what they use', () => {
  expect(limitedShare(10, 0, true)).toBe(10);
  expect(limitedShare(10, 2, true)).toBe(8);
  expect(limitedShare(10, 10, true)).toBe(5);
  expect(limitedShare(1, 1, true)).toBe(0);
  expect(limitedShare(1, 1, false)).toBe(1);
});
