import { describe, expect, it } from 'vitest';
import type { InstanceInfo } from '../../src/client/reading/instance-info.ts';
import { FailedError } from '../../src/model/failures/errors.ts';
import { platformFailure } from '../../src/model/failures/failure.ts';
import { toTypedError } from '../../src/remote/remote-error.ts';
import { resultOf } from '../../src/remote/http-backend.ts';

describe('errors of a remote client', () => {
  const failure = platformFailure('POISON', 'claimed 10 times');

  it('resultOf() of a poisoned instance throws POISON', () => {
    const info = { id: 'a', name: 'order', status: 'failed', failure } as unknown as InstanceInfo;
    expect(() => resultOf(info)).toThrow(expect.objectContaining({ code: 'POISON', failure }));
  });

  it.each(['POISON', 'TIMEOUT', 'ACTIVITY_FAILED'])(
    'toTypedError() restores a FailedError with code %s, its failure and cause',
    (code) => {
      const error = toTypedError({ code, message: 'm', subject: 'charge', failure }, 'result');
      expect(error).toBeInstanceOf(FailedError);
      expect(error).toMatchObject({ code, subject: 'charge', failure, cause: { code: 'POISON' } });
    },
  );

  it('toTypedError() of a TIMEOUT without a failure is not a FailedError', () => {
    const error = toTypedError({ code: 'TIMEOUT', message: 'm' }, 'result');
    expect(error).not.toBeInstanceOf(FailedError);
    expect(error).toMatchObject({ code: 'TIMEOUT' });
  });
});
