import {
  FailedError,
  notFound,
  PerdureError,
  type ErrorCode,
} from '../../model/failures/errors.ts';
import { decodeFailure, toError } from '../../model/failures/failure.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { RequestUpdateResult } from '../../providers/contract/updates.ts';
import { formatMs } from '../explaining/why-text.ts';
import type { UpdateCall } from './update-request.ts';

type Settled = Exclude<RequestUpdateResult, { readonly kind: 'pending' }>;
type Update = Pick<UpdateCall, 'id' | 'key'> & { readonly name?: string | undefined };

/** Returns the reply of an update, or throws its error. */
export function takeReply(update: Update, state: Settled): Payload | null {
  if (state.kind === 'replied' && state.outcome === 'completed') return state.payload;
  throw toUpdateError(update, state);
}

function toUpdateError(update: Update, state: Settled): PerdureError {
  const id = JSON.stringify(update.id);
  const what = `Update ${JSON.stringify(update.name ?? update.key)}`;
  switch (state.kind) {
    case 'missing':
      return notFound(update.id);
    case 'over':
      return new PerdureError(
        'INSTANCE_OVER',
        `Instance ${id} has ended, so the update was not stored. Read how it ended with get().`,
      );
    case 'reused':
      return new PerdureError(
        'UPDATE_KEY_REUSED',
        `Key ${JSON.stringify(update.key)} belongs to an update of instance ${id} with another name or input. Use a new key.`,
      );
    case 'full':
      return new PerdureError(
        'TOO_MANY_UPDATES',
        `${what} was not stored: 2,000 updates of instance ${id} have no reply. Retry later.`,
      );
    case 'interrupted':
      return interrupted(update, `instance ${id} is ${state.status}`);
    case 'replied':
      return fromReply(update, what, state);
  }
}

function fromReply(
  update: Update,
  what: string,
  { outcome, failure: stored }: Extract<Settled, { readonly kind: 'replied' }>,
): PerdureError {
  const failure = decodeFailure(stored ?? '{}');
  // The end or the cancel of its execution reached the handler.
  const { code: failed } = failure;
  if (failed === 'OPERATION_CANCELED' || failed === 'UPDATE_INTERRUPTED') {
    return interrupted(update, failure.message);
  }
  if (outcome === 'rejected') {
    const code = (failure.code ?? 'UPDATE_REJECTED') as ErrorCode;
    return new PerdureError(code, `${what} was rejected: ${failure.message}`);
  }
  return new FailedError({
    code: 'UPDATE_FAILED',
    message: `${what} failed: ${failure.message}`,
    subject: update.name ?? update.key,
    failure,
    cause: toError(failure),
  });
}

function interrupted({ name, key }: Update, reason: string): PerdureError {
  // Messages of failures end with a full stop.
  const why = reason.replace(/\.$/, '');
  return new PerdureError(
    'UPDATE_INTERRUPTED',
    `Update ${JSON.stringify(name ?? key)} ended without a reply: ${why}. Its handler may have done a part of its work.`,
  );
}

/** A wait for a reply that has timed out. */
export function updateTimedOut({ id, name, key }: UpdateCall, timeoutMs: number): PerdureError {
  return new PerdureError(
    'TIMEOUT',
    `Update ${JSON.stringify(name)} of instance ${JSON.stringify(id)} has no reply after ${formatMs(timeoutMs)}. It is not withdrawn: repeat the call with key ${JSON.stringify(key)} to wait again.`,
  );
}
