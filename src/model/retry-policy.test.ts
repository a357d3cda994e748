import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { errorClasses, withClasses, toError, toFailure } from './failures/failure.ts';
import {
  nextRetryDelayMs,
  resolveRetryPolicy,
  type ResolvedRetryPolicy,
  type RetryPolicy,
} from './retry-policy.ts';

const failure = { name: 'Error', message: 'it broke' };
const delays = (policy: RetryPolicy, count: number, random = () => 1) =>
  Array.from({ length: count }, (_, index) =>
    nextRetryDelayMs(resolveRetryPolicy(policy), index + 1, { failure, classes: [] }, random),
  );

describe('a retry policy', () => {
  test('defaults to three attempts with exponential backoff', () => {
    expect(resolveRetryPolicy()).toEqual({
      maxAttempts: 3,
      backoff: 'exponential',
      initialDelayMs: 1_000,
      maxDelayMs: 60_000,
      factor: 2,
      jitter: 0.2,
      nonRetryable: [],
    });
    expect(delays({}, 4)).toEqual([1_000, 2_000, undefined, undefined]);
  });

  test('round-trips through JSON, also without a limit', () => {
    const policy = resolveRetryPolicy({ maxAttempts: Infinity, nonRetryable: ['Fatal'] });
    expect(JSON.parse(JSON.stringify(policy))).toEqual(policy);
    expect(
      nextRetryDelayMs(policy, 1_000_000, { failure, classes: [] }, Math.random),
    ).toBeDefined();
  });

  test('with one attempt never retries', () => {
    expect(delays({ maxAttempts: 1 }, 1)).toEqual([undefined]);
  });

  test('computes fixed, linear and exponential delays', () => {
    const base = { maxAttempts: 9, initialDelay: 100, jitter: 0 } as const;
    expect(delays({ ...base, backoff: 'fixed' }, 4)).toEqual([100, 100, 100, 100]);
    expect(delays({ ...base, backoff: 'linear' }, 4)).toEqual([100, 200, 300, 400]);
    expect(delays({ ...base, backoff: 'exponential' }, 4)).toEqual([100, 200, 400, 800]);
    expect(delays({ ...base, factor: 3 }, 4)).toEqual([100, 300, 900, 2_700]);
  });

  test('limits the delay to maxDelay', () => {
    expect(delays({ maxAttempts: 9, maxDelay: '3s', jitter: 0 }, 4)).toEqual([
      1_000, 2_000, 3_000, 3_000,
    ]);
  });

  test('subtracts the jitter from the delay', () => {
    const policy = { maxAttempts: 9, jitter: 0.5, backoff: 'fixed' } as const;
    expect(delays(policy, 1, () => 0)).toEqual([500]);
    expect(delays(policy, 1, () => 0.999_999)).toEqual([1_000]);
  });

  test('returns a finite delay after any number of failures', () => {
    const anyPolicy = fc.record({
      backoff: fc.constantFrom('fixed', 'linear', 'exponential'),
      initialDelay: fc.constantFrom(0, 1, 1_000, '30d'),
      maxDelay: fc.constantFrom(0, 1_000, '1000w'),
      factor: fc.double({ min: 1, max: 1e300, noNaN: true }),
      jitter: fc.double({ min: 0, max: 1, noNaN: true }),
    });
    fc.assert(
      fc.property(anyPolicy, fc.integer({ min: 1, max: 1e9 }), (options, failures) => {
        const policy = resolveRetryPolicy({ ...options, maxAttempts: Infinity });
        const delay = nextRetryDelayMs(policy, failures, { failure, classes: [] }, Math.random);
        expect(Number.isSafeInteger(delay)).toBe(true);
        expect(delay).toBeGreaterThanOrEqual(0);
        expect(delay).toBeLessThanOrEqual(policy.maxDelayMs);
      }),
    );
  });

  test('does not retry a failure that is marked or listed by name or code', () => {
    const policy = resolveRetryPolicy({ nonRetryable: ['CardDeclined', 'ENOSPC'] });
    const next = (thrown: object) =>
      nextRetryDelayMs(policy, 1, { failure: { ...failure, ...thrown }, classes: [] }, () => 1);
    expect(next({ nonRetryable: true })).toBeUndefined();
    expect(next({ name: 'CardDeclined' })).toBeUndefined();
    expect(next({ code: 'ENOSPC' })).toBeUndefined();
    expect(next({ code: 'ECONNRESET' })).toBe(1_000);
    expect(next({ message: 'CardDeclined' })).toBe(1_000);
  });

  describe('nonRetryable', () => {
    class Declined extends Error {}
    class DeclinedForever extends Declined {}
    class Named extends Error {
      override readonly name = 'PaymentError';
    }
    const isFinal = (entries: RetryPolicy['nonRetryable'], thrown: unknown) => {
      // As it is stored with the work item, and read by another process.
      const policy = JSON.parse(
        JSON.stringify(resolveRetryPolicy({ nonRetryable: entries ?? [] })),
      ) as ResolvedRetryPolicy;
      const attempt = { failure: toFailure(thrown), classes: errorClasses(thrown) };
      return nextRetryDelayMs(policy, 1, attempt, () => 1) === undefined;
    };

    test('matches the name of a class that sets no name', () => {
      expect(isFinal(['Declined'], new Declined('no'))).toBe(true);
      expect(isFinal(['Declined'], new DeclinedForever('no'))).toBe(false);
      expect(isFinal(['PaymentError'], new Named('no'))).toBe(true);
      expect(isFinal(['Named'], new Named('no'))).toBe(false);
    });

    test('matches the name of a class that inherits the name of another class', () => {
      class AppError extends Error {
        override readonly name: string = 'AppError';
      }
      class OutOfStock extends AppError {}
      class SoldOut extends OutOfStock {
        override readonly name = 'SoldOutError';
      }
      expect(isFinal(['OutOfStock'], new OutOfStock('no'))).toBe(true);
      expect(isFinal(['AppError'], new OutOfStock('no'))).toBe(true);
      expect(isFinal(['SoldOut'], new SoldOut('no'))).toBe(false);
    });

    test('matches a class and its subclasses', () => {
      expect(isFinal([Declined], new Declined('no'))).toBe(true);
      expect(isFinal([Declined], new DeclinedForever('no'))).toBe(true);
      expect(isFinal([DeclinedForever], new Declined('no'))).toBe(false);
      expect(isFinal([Named, 'Other'], new Named('no'))).toBe(true);
      expect(isFinal([TypeError], new TypeError('no'))).toBe(true);
      expect(isFinal([TypeError], new Error('no'))).toBe(false);
      expect(isFinal([Error], new Declined('no'))).toBe(true);
      expect(isFinal([{ class: 'Declined' }], new DeclinedForever('no'))).toBe(true);
    });

    test('matches no class if the thrown value is not an error', () => {
      for (const thrown of [undefined, null, 'Declined', { name: 'Declined' }]) {
        expect(isFinal([Declined, Error], thrown)).toBe(false);
      }
      const hostile = new Proxy(new Error('no'), {
        getPrototypeOf: () => {
          throw new Error('never');
        },
      });
      expect(isFinal([Declined], hostile)).toBe(false);
    });

    test('matches an error that was rebuilt from another thread', () => {
      const original = new DeclinedForever('no');
      const rebuilt = withClasses(toError(toFailure(original)), errorClasses(original));
      expect(isFinal([Declined], rebuilt)).toBe(true);
      expect(isFinal(['DeclinedForever'], rebuilt)).toBe(true);
    });
  });

  test('copies its list', () => {
    const names = ['A'];
    const policy = resolveRetryPolicy({ nonRetryable: names });
    names.push('B');
    expect(policy.nonRetryable).toEqual(['A']);
  });
});

describe('resolveRetryPolicy throws when', () => {
  test.each<[string, unknown, string]>([
    ['maxAttempts is 0', { maxAttempts: 0 }, 'INVALID_OPTION'],
    ['maxAttempts is a fraction', { maxAttempts: 1.5 }, 'INVALID_OPTION'],
    ['maxAttempts is NaN', { maxAttempts: Number.NaN }, 'INVALID_OPTION'],
    ['maxAttempts is text', { maxAttempts: '3' }, 'INVALID_OPTION'],
    ['maxAttempts is a symbol', { maxAttempts: Symbol('3') }, 'INVALID_OPTION'],
    ['backoff is unknown', { backoff: 'random' }, 'INVALID_OPTION'],
    ['factor is below 1', { factor: 0.5 }, 'INVALID_OPTION'],
    ['factor is Infinity', { factor: Infinity }, 'INVALID_OPTION'],
    ['jitter is above 1', { jitter: 1.1 }, 'INVALID_OPTION'],
    ['jitter is negative', { jitter: -0.1 }, 'INVALID_OPTION'],
    ['jitter is text', { jitter: '0.5' }, 'INVALID_OPTION'],
    ['nonRetryable is not a list', { nonRetryable: 'Fatal' }, 'INVALID_OPTION'],
    ['nonRetryable holds a number', { nonRetryable: [5] }, 'INVALID_OPTION'],
    ['nonRetryable holds null', { nonRetryable: [null] }, 'INVALID_OPTION'],
    [
      'nonRetryable holds a nameless class',
      { nonRetryable: [class extends Error {}] },
      'INVALID_OPTION',
    ],
    ['a delay is negative', { initialDelay: -1 }, 'INVALID_DURATION'],
    ['a delay is unparsable', { maxDelay: 'soon' }, 'INVALID_DURATION'],
    ['it is null', null, 'INVALID_OPTION'],
    ['it is a number', 3, 'INVALID_OPTION'],
  ])('%s', (_, policy, code) => {
    expect(() => resolveRetryPolicy(policy as RetryPolicy)).toThrow(
      expect.objectContaining({ code }),
    );
  });
});
