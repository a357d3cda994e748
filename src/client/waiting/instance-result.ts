import { CanceledError, FailedError, PerdureError } from '../../model/failures/errors.ts';
import { decodeFailure, isEndedBy, toError } from '../../model/failures/failure.ts';
import { decodePayload } from '../../model/values/payload.ts';
import type { InstanceRecord } from '../../providers/contract/instances.ts';
import type { Completion } from './completion-waiter.ts';

/** How an instance ended. */
export type Ending = Pick<
  InstanceRecord,
  'instanceId' | 'name' | 'status' | 'output' | 'failure' | 'cancel' | 'terminated'
>;

/** Returns the output of a completed instance; throws the error of any other end. */
export function takeResult(record: Ending | Completion): unknown {
  if (record.status === 'completed') return decodePayload(record.output);
  const which = `Instance ${JSON.stringify(record.instanceId)} of ${JSON.stringify(record.name)}`;
  switch (record.status) {
    case 'failed':
      throw failed(record, which);
    case 'canceled':
      throw new CanceledError(
        record.cancel?.reason ?? 'canceled',
        record.cancel?.trigger ?? 'cancel',
      );
    case 'terminated':
      throw new PerdureError(
        'INSTANCE_TERMINATED',
        `${which} was terminated and has no result: ${record.terminated?.reason ?? 'no reason given'}`,
      );
    case 'skipped':
      throw new PerdureError(
        'TASK_SKIPPED',
        `${which} was skipped and has no result: its condition returned false.`,
      );
    case 'expired':
      throw new PerdureError(
        'TASK_EXPIRED',
        `${which} expired before it started and has no result. Start more workers, or set a longer expiry.`,
      );
    case 'pending':
    case 'running':
    case 'canceling':
      throw new Error(`${which} has not ended: it is ${record.status}.`);
  }
}

function failed(record: Ending, which: string): FailedError {
  const failure = decodeFailure(record.failure);
  return new FailedError({
    // Not `TIMEOUT`: `result()` throws that while the instance continues.
    code: isEndedBy(failure, 'POISON') ? failure.code : 'INSTANCE_FAILED',
    message: `${which} failed: ${failure.message}`,
    subject: record.name,
    failure,
    cause: toError(failure),
  });
}
