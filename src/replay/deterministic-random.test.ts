import { describe, expect, it } from 'vitest';
import { DeterministicRandom } from './deterministic-random.ts';

describe('deterministic randomness', () => {
  it('repeats itself for the same seed and differs for neighbouring seeds', () => {
    const draw = (seed: string) => {
      const random = new DeterministicRandom(seed);
      return [random.next(), random.next(), random.uuid()];
    };
    expect(draw('incarnation/1')).toEqual(draw('incarnation/1'));
    expect(draw('incarnation/1')).not.toEqual(draw('incarnation/2'));
    expect(draw('incarnation/1')).not.toEqual(draw('incarnatioo/1'));
  });

  it('returns fixed numbers for a seed, for replays by newer versions', () => {
    const random = new DeterministicRandom('golden/1');
    expect([random.next(), random.next(), random.uuid()]).toEqual([
      0.41723078878238895,
      0.9107891031686918,
      'e3114df3-5dad-463f-a7c0-162f292d03ad',
    ]);
  });

  it('spreads evenly from 0 up to, but not including, 1', () => {
    const random = new DeterministicRandom('spread');
    const buckets = Array.from({ length: 10 }, () => 0);
    for (let i = 0; i < 100_000; i++) {
      const value = random.next();
      expect(value >= 0 && value < 1).toBe(true);
      const bucket = Math.floor(value * 10);
      buckets[bucket] = (buckets[bucket] ?? 0) + 1;
    }
    for (const count of buckets) expect(Math.abs(count - 10_000)).toBeLessThan(500);
  });

  it('makes valid and distinct version 4 UUIDs', () => {
    const random = new DeterministicRandom('uuids');
    const uuids = Array.from({ length: 10_000 }, () => random.uuid());
    expect(new Set(uuids).size).toBe(uuids.length);
    const shape = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
    expect(uuids.every((uuid) => shape.test(uuid))).toBe(true);
  });
});
