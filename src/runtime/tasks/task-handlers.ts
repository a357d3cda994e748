import { LockLostError, PerdureError } from '../../model/failures/errors.ts';
import { decodeFailure, platformFailure, toError } from '../../model/failures/failure.ts';
import { decodeHeaders } from '../../model/work-item-options.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import type { FailedRun, TaskDefinition } from '../../tasks/task.ts';
import { RunningTaskContext } from './running-task-context.ts';
import type { RunningActivityContext } from '../activities/running-activity-context.ts';
import { TaskGate } from './task-gate.ts';
import type { WorkHandler } from '../activities/work-handler.ts';
import type { WorkOptions } from '../activities/work-options.ts';

/** The handler of a task: how it is tried is its definition's business, so that a deploy mends what waits. */
export function taskHandler(definition: TaskDefinition): WorkHandler {
  const options = attemptOptions(definition);
  return {
    what: `task ${JSON.stringify(definition.name)}`,
    inputSchema: definition.inputSchema,
    isolated: definition.isolated,
    gate: TaskGate.of(definition),
    hasOnFail: definition.onFail !== undefined,
    options: (item) => checked(item, options),
    ...(definition.condition !== undefined && {
      // What has been tried is wanted.
      isUnwanted: async (context, input, item) =>
        item.failures === 0 && (await isUnwanted(definition, taskContext(context), input)),
    }),
    run: (context, input) => definition.handler(taskContext(context), input),
    ...(definition.onAbandoned !== undefined && {
      onAbandoned: (output, context) => definition.onAbandoned?.(output, context),
    }),
  };
}

/** What a task does after a run has failed for good. */
export function onFailHandler(definition: TaskDefinition, provider: Provider): WorkHandler {
  const { onFail } = definition;
  const what = `the handler for failures of task ${JSON.stringify(definition.name)}`;
  const options = attemptOptions(onFail ?? {});
  return {
    what,
    // A run may have failed because of its input: its handler sees it all the same, as it was stored.
    inputSchema: undefined,
    hasOnFail: false,
    options: (item) => checked(item, options),
    run: async (context, input, item) => {
      if (onFail === undefined) throw toError(platformFailure('UNREGISTERED', gone(what)));
      return onFail.handler(taskContext(context), await readFailedRun(provider, item, input));
    },
  };
}

function attemptOptions({
  retry,
  attemptTimeoutMs,
}: Pick<TaskDefinition, 'retry' | 'attemptTimeoutMs'>): WorkOptions {
  return {
    ...(retry !== undefined && { retry }),
    ...(attemptTimeoutMs !== undefined && { attemptTimeoutMs }),
    cancellation: 'wait',
  };
}

/** Damaged headers are found before the handler runs, not when it looks at them. */
function checked(item: WorkItem, options: WorkOptions): WorkOptions {
  decodeHeaders(item.options);
  return options;
}

function taskContext(context: RunningActivityContext): RunningTaskContext {
  if (context instanceof RunningTaskContext) return context;
  throw new Error('A task was given the context of an activity.');
}

async function isUnwanted(
  definition: TaskDefinition,
  context: RunningTaskContext,
  input: unknown,
): Promise<boolean> {
  let wanted: unknown;
  try {
    wanted = await definition.condition?.(input, context);
  } catch (cause) {
    context.throwIfCanceled();
    throw conditionFailed(definition.name, 'threw', cause);
  }
  if (typeof wanted !== 'boolean') {
    throw conditionFailed(definition.name, `answered ${typeof wanted}, not true or false`);
  }
  context.throwIfCanceled();
  return !wanted;
}

// Not tried again: a condition that breaks says nothing about the work, and its mistake would only come back.
function conditionFailed(task: string, problem: string, cause?: unknown): Error {
  const error = new PerdureError(
    'CONDITION_FAILED',
    `The condition of task ${JSON.stringify(task)} ${problem}. Mend it; a condition answers true or false.`,
    cause === undefined ? undefined : { cause },
  );
  return Object.assign(error, { nonRetryable: true });
}

async function readFailedRun(
  provider: Provider,
  { instanceId, incarnation, failure }: WorkItem,
  input: unknown,
): Promise<FailedRun> {
  const [record] = await provider.getInstances([instanceId]);
  if (record?.incarnation !== incarnation) throw new LockLostError('onFail');
  return { input, failure: decodeFailure(failure ?? null), attempts: record.task?.failures ?? 0 };
}

function gone(what: string): string {
  return `This worker knows nothing of ${what}: its definition has no onFail any more.`;
}
