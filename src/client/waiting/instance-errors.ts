import { PerdureError } from '../../model/failures/errors.ts';
import { notFound } from '../../model/failures/not-found.ts';
import { formatMs } from '../reading/describe-wait.ts';
import type { EnqueueResult } from '../../providers/contract/instances.ts';

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

/** The instance was deleted, and its id was given to another one. */
export function instanceReplaced(instanceId: string): PerdureError {
  return new PerdureError(
    'INSTANCE_NOT_FOUND',
    `Instance ${JSON.stringify(instanceId)} was deleted while it was waited for, and another one has its id now. Wait again to wait for that one.`,
  );
}

/** A wait that has taken long enough. */
export function waitTimedOut(
  instanceId: string,
  timeoutMs: number,
  {
    cause,
    waitsFor,
  }: { readonly cause?: Error | undefined; readonly waitsFor?: string | undefined } = {},
): PerdureError {
  const state = waitsFor === undefined ? '' : `: ${waitsFor}`;
  return new PerdureError(
    'TIMEOUT',
    `Instance ${JSON.stringify(instanceId)} has not ended after ${formatMs(timeoutMs)}${state}. It continues: wait again, or see its state with get().`,
    cause && { cause },
  );
}

/** An event that found nobody to read it. */
export function eventRejected(
  instanceId: string,
  event: string,
  why: Exclude<EnqueueResult, 'enqueued'> | undefined,
): PerdureError {
  const [id, name] = [JSON.stringify(instanceId), JSON.stringify(event)];
  switch (why) {
    case 'over':
      return new PerdureError(
        'INSTANCE_OVER',
        `Instance ${id} is over, so event ${name} was not kept. See with get() how it ended.`,
      );
    case 'full':
      return new PerdureError(
        'EVENT_BUFFER_FULL',
        `Event ${name} was refused: too many events wait for instance ${id}. Raise it again later, or let a worker catch up.`,
      );
    case 'missing':
    case undefined:
      return notFound(instanceId);
  }
}

/** The client was closed before or during the call. */
export function clientClosed(): PerdureError {
  return new PerdureError(
    'CLOSED',
    'The client is closed. Instances go on without it; open Perdure again to reach them.',
  );
}
