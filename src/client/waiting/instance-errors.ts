import { PerdureError, notFound } from '../../model/failures/errors.ts';
import { formatMs } from '../reading/describe-wait.ts';
import type { EnqueueResult, NewInstance } from '../../providers/contract/instances.ts';
import type { NewTask } from '../../providers/contract/tasks.ts';

/** The id belongs to another start. */
export function alreadyExists({ instanceId, name }: NewInstance, takenBy: string): PerdureError {
  const other = takenBy === name ? 'another input' : `orchestration ${JSON.stringify(takenBy)}`;
  return new PerdureError(
    'INSTANCE_ALREADY_EXISTS',
    `Instance ${JSON.stringify(instanceId)} was started before with ${other}. Choose another id, or use handle() to reach that one.`,
  );
}

/** The instance was deleted, and its id was given to another one. */
export function replaced(instanceId: string): PerdureError {
  return new PerdureError(
    'INSTANCE_NOT_FOUND',
    `Instance ${JSON.stringify(instanceId)} was deleted while it was waited for, and another one has its id now. Wait again to wait for that one.`,
  );
}

/** A wait that has taken long enough. */
export function notOverInTime(
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

/** The id belongs to another run or instance. */
export function taskAlreadyExists({ instanceId, name }: NewTask, takenBy: string): PerdureError {
  const other = takenBy === name ? 'another input' : JSON.stringify(takenBy);
  return new PerdureError(
    'INSTANCE_ALREADY_EXISTS',
    `Instance ${JSON.stringify(instanceId)} was started before with ${other}. Choose another id, or use handle() to reach that one.`,
  );
}

/** An event that found nobody to read it. */
export function refusedEvent(
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
