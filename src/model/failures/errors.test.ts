import { describe, expect, test } from 'vitest';
import {
  CanceledError,
  FailedError,
  isPerdureError,
  LockLostError,
  NondeterminismError,
  PerdureError,
  ProviderError,
} from './errors.ts';

const provider = { operation: 'ack', message: 'disk full', retryable: true };

describe('errors of Perdure', () => {
  test.each<[PerdureError, string, string]>([
    [new PerdureError('CLOSED', 'x'), 'PerdureError', 'CLOSED'],
    [new ProviderError(provider), 'ProviderError', 'PROVIDER'],
    [new ProviderError({ ...provider, code: 'STORE_TOO_NEW' }), 'ProviderError', 'STORE_TOO_NEW'],
    [new LockLostError('ack'), 'LockLostError', 'LOCK_LOST'],
    [new NondeterminismError('x', 3), 'NondeterminismError', 'NONDETERMINISM'],
    [new CanceledError('stop', 'shutdown'), 'CanceledError', 'OPERATION_CANCELED'],
  ])('%s has its own name and code', (error, name, code) => {
    expect(error).toBeInstanceOf(Error);
    expect(error.name).toBe(name);
    expect(error.code).toBe(code);
    expect(String(error)).toBe(`${name}: ${error.message}`);
    expect(isPerdureError(error)).toBe(true);
    expect(isPerdureError(error, error.code)).toBe(true);
    expect(isPerdureError(error, 'INVALID_ID')).toBe(false);
  });

  test('have the documented fields', () => {
    expect(new ProviderError(provider)).toMatchObject({ operation: 'ack', retryable: true });
    expect(new LockLostError('ack')).toMatchObject({ operation: 'ack', retryable: false });
    expect(new NondeterminismError('x', 3).eventId).toBe(3);
    expect(new CanceledError('stop', 'timeout')).toMatchObject({
      reason: 'stop',
      trigger: 'timeout',
      message: 'Canceled (timeout): stop',
    });
    const failure = { name: 'Error', message: 'm' };
    const cause = new Error('m');
    expect(
      new FailedError({ code: 'CHILD_FAILED', message: 'x', subject: 'order', failure, cause }),
    ).toMatchObject({ code: 'CHILD_FAILED', subject: 'order', failure, cause });
  });

  test('have a cause only if one is passed', () => {
    expect(new ProviderError(provider)).not.toHaveProperty('cause');
    expect(new ProviderError({ ...provider, cause: 5 })).toHaveProperty('cause', 5);
  });

  test('are recognized across copies of the package', () => {
    class PerdureErrorOfAnotherCopy extends Error {
      code = 'TIMEOUT';
    }
    const error = new PerdureErrorOfAnotherCopy('x');
    Object.defineProperty(error, Symbol.for('perdure.error'), { value: true });
    expect(isPerdureError(error, 'TIMEOUT')).toBe(true);
    expect(PerdureError.is(error)).toBe(true);
  });

  test('keep the name of a class that extends them', () => {
    class OutOfStock extends PerdureError {}
    expect(new OutOfStock('INVALID_INPUT', 'x').name).toBe('OutOfStock');
  });
});

test.each<[string, unknown]>([
  ['another error', new Error('x')],
  ['an object with a code', { code: 'CLOSED' }],
  ['null', null],
  ['undefined', undefined],
  ['text', 'CLOSED'],
  [
    'a proxy whose traps throw',
    new Proxy(
      {},
      {
        has: () => {
          throw new Error('no');
        },
      },
    ),
  ],
])('%s is not an error of Perdure', (_, thrown) => {
  expect(isPerdureError(thrown)).toBe(false);
});
