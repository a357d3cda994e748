import { describe, expect, it } from 'vitest';
import { LockLostError, PerdureError, ProviderError } from '../../../model/failures/errors.ts';
import {
  isConnectionLost,
  isFaultOfItem,
  isRefusedCommit,
  isTransient,
  toProviderError,
  unknownOutcome,
} from './postgres-errors.ts';

const withCode = (code: string, message = 'said the server'): Error =>
  Object.assign(new Error(message), { code });

describe('PostgreSQL errors', () => {
  it.each(['40001', '40P01', '25006', '57P01', '57P02', '57P03', '08006', '53300', 'ECONNRESET'])(
    '%s is retryable',
    (code) => {
      expect(isTransient(withCode(code))).toBe(true);
      expect(toProviderError('write', withCode(code))).toMatchObject({ retryable: true });
    },
  );

  it.each(['23505', '22P02', '42501', '42P01', '28P01', '3D000', '54000'])(
    '%s is not retryable',
    (code) => {
      expect(isTransient(withCode(code))).toBe(false);
      expect(toProviderError('write', withCode(code))).toMatchObject({
        retryable: false,
        operation: 'write',
        code: 'PROVIDER',
      });
    },
  );

  it.each(['Connection terminated unexpectedly', 'Query read timeout', 'timeout expired'])(
    '"%s" counts as a lost connection',
    (message) => expect(isConnectionLost(new Error(message))).toBe(true),
  );

  it('isFaultOfItem is true for data errors only', () => {
    expect(['22P02', '23505', '54000'].every((code) => isFaultOfItem(withCode(code)))).toBe(true);
    expect(['42501', '57P01', '40P01', '42P01'].some((code) => isFaultOfItem(withCode(code)))).toBe(
      false,
    );
    expect(isFaultOfItem(toProviderError('write', withCode('23505')))).toBe(true);
    expect(isFaultOfItem(toProviderError('write', withCode('42501')))).toBe(false);
    expect(isFaultOfItem(new PerdureError('CLOSED', 'closed'))).toBe(false);
    expect(isFaultOfItem(new LockLostError('write'))).toBe(true);
  });

  it('isRefusedCommit is true only for SQLSTATE classes 23, 25 and 40 without 40003', () => {
    expect(['23505', '40001', '25P02'].every((code) => isRefusedCommit(withCode(code)))).toBe(true);
    expect(['57P01', '40003', '08006', ''].some((code) => isRefusedCommit(withCode(code)))).toBe(
      false,
    );
  });

  it('an unknown outcome is retryable by the caller but not transient', () => {
    const error = unknownOutcome('write', withCode('57P01'));
    expect(error).toMatchObject({ retryable: true, outcomeUnknown: true });
    expect(isTransient(error)).toBe(false);
    expect(toProviderError('write', error)).toBe(error);
  });

  it('describes an AggregateError without a message by its first error', () => {
    const refused = Object.assign(
      new AggregateError([withCode('', 'connect ECONNREFUSED ::1')], ''),
      {
        code: 'ECONNREFUSED',
      },
    );
    expect(toProviderError('open', refused)).toBeInstanceOf(ProviderError);
    expect(toProviderError('open', refused).message).toMatch(
      /connect ECONNREFUSED ::1.*Check the host/,
    );
  });
});
