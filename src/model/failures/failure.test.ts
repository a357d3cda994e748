import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { describe, expect, test, it } from 'vitest';
import { CanceledError, PerdureError } from './errors.ts';
import {
  decodeFailure,
  isFailure,
  platformFailure,
  toError,
  toFailure,
  toLoggedError,
} from './failure.ts';

describe('a failure', () => {
  test('keeps name, message, stack, code, details and cause of an error', () => {
    class CardDeclined extends Error {
      override name = 'CardDeclined';
      code = 'card_declined';
      details = { last4: '4242' };
    }
    const error = new CardDeclined('No money', { cause: new TypeError('inner') });
    const failure = toFailure(error);
    expect(failure).toEqual({
      name: 'CardDeclined',
      message: 'No money',
      stack: error.stack,
      code: 'card_declined',
      details: { last4: '4242' },
      cause: expect.objectContaining({ name: 'TypeError', message: 'inner' }) as unknown,
    });
    expect(toFailure(Object.assign(new Error('x'), { nonRetryable: true })).nonRetryable).toBe(
      true,
    );
    expect(toFailure(Object.assign(new Error('x'), { nonRetryable: 'yes' }))).not.toHaveProperty(
      'nonRetryable',
    );
  });

  test('is plain data that round-trips through JSON, for any thrown value', () => {
    fc.assert(
      fc.property(
        fc.anything({ withBigInt: true, withMap: true, withNullPrototype: true }),
        (thrown) => {
          for (const value of [
            thrown,
            Object.assign(new Error('x'), { details: thrown, cause: thrown }),
          ]) {
            const failure = toFailure(value);
            expect(isFailure(failure)).toBe(true);
            expect(JSON.parse(JSON.stringify(failure))).toEqual(failure);
          }
        },
      ),
    );
  });

  test('keeps the code of the errors of Node, numbers included', () => {
    expect(toFailure(Object.assign(new Error('x'), { code: 'ENOENT' })).code).toBe('ENOENT');
    expect(toFailure(Object.assign(new Error('x'), { code: 404 })).code).toBe('404');
    expect(toFailure(Object.assign(new Error('x'), { code: {} }))).not.toHaveProperty('code');
    expect(toFailure(new CanceledError('stop', 'cancel')).code).toBe('OPERATION_CANCELED');
  });

  test('recognizes an error of another realm', () => {
    const foreign = runInNewContext('new RangeError("elsewhere")') as unknown;
    expect(foreign instanceof Error).toBe(false);
    expect(toFailure(foreign)).toMatchObject({ name: 'RangeError', message: 'elsewhere' });
  });

  test('contains the errors of an AggregateError', async () => {
    const error: unknown = await Promise.any([
      Promise.reject(new TypeError('first')),
      Promise.reject(Object.assign(new Error('second'), { code: 'E2' })),
    ]).catch((reason: unknown) => reason);
    expect(toFailure(error)).toMatchObject({
      name: 'AggregateError',
      details: {
        errors: [
          { name: 'TypeError', message: 'first' },
          { name: 'Error', message: 'second', code: 'E2' },
        ],
      },
    });
  });

  test.each<[string, unknown, object]>([
    ['undefined', undefined, { message: 'undefined was thrown' }],
    ['null', null, { message: 'null' }],
    ['a string', 'oops', { message: 'oops' }],
    ['an empty string', '', { message: '' }],
    ['a number', 42, { message: '42' }],
    ['NaN', Number.NaN, { message: 'NaN' }],
    ['a BigInt', 1n, { message: 'a value of type bigint' }],
    ['a symbol', Symbol('x'), { message: 'a value of type symbol' }],
    ['a function', () => 1, { message: 'a value of type function' }],
    ['an object', { a: 1 }, { message: '{"a":1}', details: { a: 1 } }],
    ['a Map', new Map(), { message: 'a value of type object' }],
  ])('is made of a thrown %s', (_, thrown, expected) => {
    expect(toFailure(thrown)).toEqual({ name: 'NonError', ...expected });
  });

  test('omits only the unreadable fields of a hostile error', () => {
    const throwing = () => {
      throw new Error('not for you');
    };
    const error = new Error('readable');
    for (const key of ['stack', 'code', 'details', 'cause', 'name', 'nonRetryable']) {
      Object.defineProperty(error, key, { get: throwing });
    }
    expect(toFailure(error)).toEqual({ name: 'Error', message: 'readable' });
  });

  test('is created for values that cannot be inspected', () => {
    const throwing = () => {
      throw new Error('not for you');
    };
    const { proxy, revoke } = Proxy.revocable(new Error('x'), {});
    revoke();
    const hostile = [
      proxy,
      new Proxy(new Error('x'), { get: throwing, getPrototypeOf: throwing }),
      { toJSON: throwing },
      Object.assign(new Error('x'), { message: { toString: throwing } }),
      Object.assign(new Error('x'), { name: Symbol('name') }),
    ];
    for (const thrown of hostile) expect(isFailure(toFailure(thrown))).toBe(true);
  });

  test('cuts long texts without splitting a character', () => {
    const failure = toFailure(new Error('🚚'.repeat(100_000) + 'x'));
    expect(failure.message.length).toBeLessThan(33_000);
    expect(failure.message).toMatch(/… \(cut\)$/);
    expect(toFailure(`x${'🚚'.repeat(100_000)}`).message.isWellFormed()).toBe(true);
  });

  test('keeps details as JSON writes them, where a payload would be rejected', () => {
    const details = { at: new Date(0), list: [undefined], link: new URL('http://localhost/') };
    expect(toFailure(Object.assign(new Error('x'), { details })).details).toEqual({
      at: '1970-01-01T00:00:00.000Z',
      list: [null],
      link: 'http://localhost/',
    });
  });

  test('drops details that are too large or not serializable', () => {
    expect(
      toFailure(Object.assign(new Error('x'), { details: 'y'.repeat(40_000) })),
    ).not.toHaveProperty('details');
    expect(toFailure(Object.assign(new Error('x'), { details: { a: 1n } }))).not.toHaveProperty(
      'details',
    );
  });

  test('limits the depth of causes, also for a cycle', () => {
    const error = new Error('loop');
    error.cause = error;
    let depth = 0;
    for (let at = toFailure(error); at.cause !== undefined; at = at.cause) depth++;
    expect(depth).toBe(8);
  });

  test('drops a __proto__ key', () => {
    const sneaky = { toJSON: () => JSON.parse('{"__proto__":{"polluted":true}}') as unknown };
    for (const thrown of [sneaky, Object.assign(new Error('x'), { details: sneaky })]) {
      const { details } = toFailure(thrown);
      expect(details).toEqual({});
      expect(Object.keys(details as object)).toEqual([]);
      expect((details as { polluted?: boolean }).polluted).toBeUndefined();
    }
  });
});

describe('an error made of a failure', () => {
  test('has all recorded fields, and converts to the same failure', () => {
    const failure = toFailure(
      Object.assign(
        new RangeError('outer', { cause: Object.assign(new Error('inner'), { code: 'X' }) }),
        {
          details: [1],
          nonRetryable: true,
        },
      ),
    );
    const error = toError(failure);
    expect(error).toBeInstanceOf(Error);
    expect(error).toMatchObject({
      name: 'RangeError',
      message: 'outer',
      details: [1],
      stack: failure.stack,
    });
    expect(error.cause).toMatchObject({ message: 'inner', code: 'X' });
    expect(toFailure(error)).toEqual(failure);
  });

  test('has only non-enumerable extra fields', () => {
    expect(Object.keys(toError(toFailure(Object.assign(new Error('x'), { code: 'Y' }))))).toEqual(
      [],
    );
  });
});

describe('a stored failure', () => {
  test('is read back', () => {
    const failure = toFailure(new Error('x', { cause: 'y' }));
    expect(decodeFailure(JSON.stringify(failure))).toEqual(failure);
  });

  test.each([
    null,
    '',
    '{',
    'null',
    '[]',
    '"x"',
    '{}',
    '{"name":"E"}',
    '{"name":"E","message":1}',
    '{"name":"E","message":"m","cause":{}}',
  ])('that is damaged (%j) decodes as an UNDECODABLE failure', (text) => {
    expect(decodeFailure(text)).toMatchObject({ code: 'UNDECODABLE' });
  });
});

test('a failure that Perdure itself states has a code and is never retried', () => {
  expect(platformFailure('POISON', 'too often')).toEqual({
    name: 'PerdureError',
    message: 'too often',
    code: 'POISON',
    nonRetryable: true,
    platform: true,
  });
  expect(new PerdureError('POISON', 'x').name).toBe('PerdureError');
});

it('a logged error leaves out details, which may hold payloads', () => {
  const failure = {
    name: 'E',
    message: 'no',
    details: { card: '4111' },
    cause: { name: 'C', message: 'x', details: 1 },
  };
  expect(toLoggedError(failure)).toEqual({
    name: 'E',
    message: 'no',
    cause: { name: 'C', message: 'x' },
  });
});

it('a logged disagreement of code and history quotes no payload', () => {
  const failure = {
    name: 'NondeterminismError',
    code: 'NONDETERMINISM',
    message: `history records a call of activity 'pay' with input "4111"`,
    stack: `NondeterminismError: history records a call of activity 'pay' with input "4111"`,
  };
  expect(JSON.stringify(toLoggedError(failure))).not.toContain('4111');
});
