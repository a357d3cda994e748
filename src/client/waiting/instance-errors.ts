import { PerdureError, notFound } from '../../model/failures/errors.ts';
import { formatMs } from '../explaining/why-text.ts';
import type { EnqueueResult } from '../../providers/contract/instances.ts';
import type { StateRequest } from '../../providers/contract/state.ts';

/** The id is taken by a run of `takenBy`, or by one with another input. */
export function alreadyExists(
  { instanceId, name }: { readonly instanceId: string; readonly name: string },
  takenBy: string,
): PerdureError {
  const other = takenBy === name ? 'another input' : JSON.stringify(takenBy);
  return new PerdureError(
    'INSTANCE_ALREADY_EXISTS',
    `Instance ${JSON.stringify(instanceId)} was already started with ${other}. Choose another id, or get a handle of that instance with handle().`,
  );
}

/** The instance was deleted during the wait, and its id was reused. */
export function instanceReplaced(instanceId: string): PerdureError {
  return new PerdureError(
    'INSTANCE_NOT_FOUND',
    `Instance ${JSON.stringify(instanceId)} was deleted during the wait, and another instance has its id. Wait again to wait for that one.`,
  );
}

/** A wait that has timed out. */
export function waitTimedOut(
  instanceId: string,
  timeoutMs: number,
  {
    cause,
    waitsFor,
  }: { readonly cause?: Error | undefined; readonly waitsFor?: string | undefined } = {},
): PerdureError {
  const state = waitsFor === undefined ? '' : ` ${waitsFor}`;
  return new PerdureError(
    'TIMEOUT',
    `Instance ${JSON.stringify(instanceId)} has not ended after ${formatMs(timeoutMs)}.${state} It continues: wait again, or read its state with why().`,
    cause && { cause },
  );
}

/** An event that the instance cannot receive. */
export function eventRejected(
  instanceId: string,
  event: string,
  why: Exclude<EnqueueResult, 'enqueued' | 'repeated'> | undefined,
): PerdureError {
  const [id, name] = [JSON.stringify(instanceId), JSON.stringify(event)];
  switch (why) {
    case 'over':
      return new PerdureError(
        'INSTANCE_OVER',
        `Instance ${id} has ended, so event ${name} was not stored. Read how it ended with get().`,
      );
    case 'full':
      return new PerdureError(
        'EVENT_BUFFER_FULL',
        `Event ${name} was not stored: the event buffer of instance ${id} is full. Retry later, when a worker has processed it.`,
      );
    case 'missing':
    case undefined:
      return notFound(instanceId);
  }
}

/** The client was closed before or during the call. */
export function clientClosed(): PerdureError {
  return new PerdureError('CLOSED', 'The client is closed. Open the store or connect again.');
}

/** Describes what a wait is for. */
function subjectOf({ what, key }: StateRequest): string {
  return what === 'status' ? 'the custom status' : `state ${JSON.stringify(key)}`;
}

/** The instance has ended without the version that a wait needs. */
export function overWithoutVersion(request: StateRequest, status: string): PerdureError {
  return new PerdureError(
    'INSTANCE_OVER',
    `Instance ${JSON.stringify(request.instanceId)} has ended (${status}) and has no version of ${subjectOf(request)} after ${request.after}. Read how it ended with get().`,
  );
}

/** A wait for a version that has timed out. */
export function noVersionInTime(
  request: StateRequest,
  timeoutMs: number,
  cause?: Error,
): PerdureError {
  return new PerdureError(
    'TIMEOUT',
    `Instance ${JSON.stringify(request.instanceId)} has no version of ${subjectOf(request)} after ${request.after} within ${formatMs(timeoutMs)}. It continues: wait again, or read its state with why().`,
    cause && { cause },
  );
}
