import { notFound, PerdureError } from '../model/failures/errors.ts';
import type { RerunRefusal } from '../providers/contract/reruns.ts';

/** Returns the error for a refused retry or fork. `what` completes "Instance … cannot be". */
export function refused(
  id: string,
  what: string,
  refusal:
    | Exclude<RerunRefusal, { kind: 'status' }>
    | { readonly kind: 'status'; readonly status: string }
    | undefined,
): Error {
  const subject = `Instance ${quote(id)} cannot be ${what}`;
  const reject = (because: string) =>
    new PerdureError('INSTANCE_NOT_RETRYABLE', `${subject}: ${because}`);
  switch (refusal?.kind) {
    case 'missing':
      return notFound(id);
    case 'child':
      return reject(
        `it is a child. Use its root; its parent is ${quote(refusal.parentInstanceId)}.`,
      );
    case 'status': {
      const { status } = refusal;
      const isLive = status === 'pending' || status === 'running' || status === 'canceling';
      if (!isLive) {
        return reject(
          `it is ${status}. Only failed, canceled, terminated and expired ones can be.`,
        );
      }
      return new PerdureError(
        'INSTANCE_STILL_RUNNING',
        `${subject}: it is ${status}. Wait until it has ended, or terminate it.`,
      );
    }
    case 'job':
      return reject('it is a job whose reply was not taken yet. Take the reply or close the job.');
    case 'busy':
      return new PerdureError(
        'INSTANCE_STILL_RUNNING',
        `${subject}: one of its handlers has not stopped yet. Retry it later.`,
      );
    case 'keyTaken':
      return reject(
        `run ${quote(refusal.instanceId)} holds its dedupe key. Wait until that run has ended.`,
      );
    case 'refused':
      return refusal.error;
    default:
      return reject('it changed at the same time. Read it and try again.');
  }
}

/** Quotes a value for a message. */
export function quote(text: string): string {
  return JSON.stringify(text);
}
