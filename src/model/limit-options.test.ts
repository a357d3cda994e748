import { describe, expect, test } from 'vitest';
import { activity } from '../orchestration/activity.ts';
import { orchestration } from '../orchestration/orchestration.ts';
import { task } from '../tasks/task.ts';
import { readLane, readLimits, toSharedLimits, type LimitOptions } from './limit-options.ts';

const read = (options: LimitOptions) => readLimits('task "sync"', options);
const rate = (change: object) => read({ rate: { limit: 10, per: '1s', ...change } });
const invalid = (message: RegExp) =>
  expect.objectContaining({ code: 'INVALID_OPTION', message: expect.stringMatching(message) });

describe('limits of a definition', () => {
  test('a number is the limit of one worker, which other workers do not share', () => {
    expect(read({ concurrency: 3 })).toEqual({ concurrency: { perWorker: 3 } });
    expect(toSharedLimits(read({ concurrency: 3 }))).toBeUndefined();
  });

  test('global and per-key limits and the rate are shared', () => {
    const limits = read({
      concurrency: { global: 50, perWorker: 5, perKey: 2 },
      rate: { limit: 100, per: '1m', burst: 7, perKey: true },
    });
    expect(toSharedLimits(limits)).toEqual({
      global: 50,
      perKey: 2,
      rate: { limit: 100, perMs: 60_000, burst: 7, perKey: true },
    });
  });

  test('the default burst is the starts of 100 ms', () => {
    expect(rate({ limit: 100 })).toMatchObject({ rate: { burst: 10, perKey: false } });
    expect(rate({ limit: 100, per: '1m' })).toMatchObject({ rate: { burst: 0 } });
  });

  test.each([0, -1, 1.5, Number.NaN, Infinity, 1_000_001, 2 ** 60, '3', null, true])(
    'a concurrency of %s is rejected with the valid range',
    (value) => {
      for (const name of ['global', 'perWorker', 'perKey']) {
        expect(() => read({ concurrency: { [name]: value } })).toThrow(
          invalid(new RegExp(`concurrency.${name} of task "sync".*from 1 to 1000000, or omit it`)),
        );
      }
      if (typeof value !== 'number') return;
      expect(() => read({ concurrency: value })).toThrow(invalid(/from 1 to 1000000/));
    },
  );

  test('an unknown limit is named with the closest one', () => {
    expect(() => read({ concurrency: { perkey: 1 } as never })).toThrow(
      invalid(/Unknown option `perkey`.*Did you mean `perKey`/),
    );
    expect(() => rate({ brust: 1 })).toThrow(invalid(/Did you mean `burst`/));
  });

  test.each([
    ['limit', [0, -1, 0.5, Number.NaN, 1_000_001, undefined, '10'], /rate\.limit.*1 to 1000000/],
    ['burst', [-1, 0.5, Number.NaN, 1_000_001, '1'], /rate\.burst.*0 to 1000000/],
    ['per', [0, '0s', '32d', 3e9], /rate\.per.*1 ms to 31 days/],
    ['per', [undefined], /rate\.per.*such as '1m'/],
    ['perKey', ['yes', 1, null], /rate\.perKey.*true or false/],
  ] as const)('an invalid rate %s is rejected', (name, values, message) => {
    for (const value of values) expect(() => rate({ [name]: value })).toThrow(invalid(message));
  });

  test.each(['1 fortnight', '-5s', '', Number.NaN, -1])(
    'a period of %s rejects as every duration does',
    (per) => {
      expect(() => rate({ per })).toThrow(expect.objectContaining({ code: 'INVALID_DURATION' }));
    },
  );

  test('more than one start per microsecond is rejected', () => {
    expect(() => rate({ limit: 1_001, per: '1ms' })).toThrow(
      invalid(/at most 1000 per 1 ms, or a longer period/),
    );
    expect(rate({ limit: 1_000, per: 0.5 })).toMatchObject({ rate: { perMs: 1 } });
  });

  test('a rate that is no object is rejected', () => {
    for (const value of [5, null, 'fast']) {
      expect(() => read({ rate: value as never })).toThrow(invalid(/such as { limit: 100/));
    }
  });

  test('definitions keep their limits', () => {
    const limits = {
      concurrency: { global: 2, perKey: 1 },
      rate: { limit: 1, per: '1s' },
    } as const;
    const resolved = {
      concurrency: { global: 2, perKey: 1 },
      rate: { limit: 1, perMs: 1_000, burst: 0, perKey: false },
    };
    expect(task('a', () => 1, limits)).toMatchObject(resolved);
    expect(activity('a', () => 1, limits)).toMatchObject({ ...resolved, defaults: {} });
    const { concurrency } = limits;
    expect(orchestration('a', async () => 1, { concurrency })).toMatchObject({ concurrency });
    expect(() =>
      orchestration('a', async () => 1, { concurrency: { perWorker: 2 } as never }),
    ).toThrow(invalid(/Unknown option `perWorker`.*Valid options: global, perKey/));
    expect(() => orchestration('a', async () => 1, { concurrency: 2 as never })).toThrow(
      invalid(/{ global, perKey }/),
    );
  });
});

describe('the lane of a run', () => {
  test('a run without a key has none', () => {
    expect(readLane({})).toBeUndefined();
    expect(readLane({ key: undefined })).toBeUndefined();
  });

  test('the default weight is 1', () => {
    expect(readLane({ key: 'tenant-7' })).toEqual({ key: 'tenant-7', weight: 1 });
    expect(readLane({ key: 'tenant-7', weight: 100 })).toEqual({ key: 'tenant-7', weight: 100 });
  });

  test.each([
    ['', /is empty/],
    ['x'.repeat(256), /longer than 255 characters/],
    ['x'.repeat(10_240), /longer than 255 characters/],
    ['a\u0000b', /control character/],
    ['a\nb', /control character/],
    ['a\u2028b', /control character/],
    ['\uD800', /half of a surrogate pair/],
    ["it's", /quote/],
    [7, /must be a string/],
    [null, /must be a string/],
  ])('the key %j is rejected', (key, message) => {
    expect(() => readLane({ key })).toThrow(invalid(message));
  });

  test('255 characters of any script are a key', () => {
    for (const key of ['x'.repeat(255), '客'.repeat(255)]) {
      expect(readLane({ key })).toEqual({ key, weight: 1 });
    }
  });

  test.each([0, -1, 1.5, 101, Number.NaN, '2', null])('the weight %s is rejected', (weight) => {
    expect(() => readLane({ key: 'a', weight })).toThrow(invalid(/`weight`.*from 1 to 100/));
  });

  test('a weight without a key is rejected', () => {
    expect(() => readLane({ weight: 2 })).toThrow(invalid(/without `key`/));
  });
});
