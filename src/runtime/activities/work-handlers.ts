import { decodeActivityOptions, type ActivityOptions } from '../../model/activity-options.ts';
import type { StandardSchema } from '../../model/definition.ts';
import type { ActivityScheduled } from '../../model/event.ts';
import { LockLostError, PerdureError } from '../../model/failures/errors.ts';
import { decodeFailure, platformFailure, toError } from '../../model/failures/failure.ts';
import { decodeHeaders } from '../../model/task-options.ts';
import { decodePayload, type Payload } from '../../model/values/payload.ts';
import type { OnAbandoned } from '../../orchestration/abandoned-context.ts';
import type { ActivityDefinition } from '../../orchestration/activity.ts';
import { toAttemptDefaults } from '../../orchestration/call-options.ts';
import type { Registry } from '../../orchestration/registry.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import type { TaskClient, TaskRegistry, FailedRun, TaskDefinition } from '../../tasks/task.ts';
import type { ResolvedOptions } from '../options.ts';
import { RunningTaskContext, type RunningActivityContext } from './running-context.ts';
import { TaskLimiter } from './concurrency.ts';

/** What a worker needs to know of a call besides its input: stored with the work item, opaque to the store. */
export interface WorkOptions extends ActivityOptions {
  /** Absent: `request`. */
  readonly cancellation?: 'wait' | 'abandon';
}

export function encodeWorkOptions({ options, cancellation }: ActivityScheduled): string | null {
  if (options === undefined && cancellation === undefined) return null;
  return JSON.stringify({ ...options, ...(cancellation !== undefined && { cancellation }) });
}

/** Reads stored options; throws `UNDECODABLE` for what no version of Perdure has written. */
export function decodeWorkOptions(stored: string | null): WorkOptions {
  return decodeActivityOptions(stored);
}

/** The code for one kind of work item: an activity, a task, or what a task does after a failure. */
export interface WorkHandler {
  /** For messages: `activity "x"`. */
  readonly label: string;
  readonly inputSchema: StandardSchema | undefined;
  /** Where the handler is found, when it runs in a thread of its own. */
  readonly isolated?: { readonly module: string; readonly exportName: string } | undefined;
  /** What bounds it besides the slots of the worker. */
  readonly limiter?: TaskLimiter | undefined;
  /** Whether something is to be run after it has failed for good. */
  readonly hasOnFail: boolean;
  /** How it is tried; throws `UNDECODABLE` for options that no version of Perdure has written. */
  options(item: WorkItem): WorkOptions;
  /** Asked before it is run: whether the run is not wanted any more. */
  isUnwanted?(context: RunningActivityContext, input: unknown, item: WorkItem): Promise<boolean>;
  run(context: RunningActivityContext, input: unknown, item: WorkItem): unknown;
  /** Disposes of a result that nobody wants any more. */
  readonly onAbandoned?: OnAbandoned<unknown>;
}

/**
 * The handler of an activity: its options were chosen by the call, and are stored with the item. What the call left
 * open, such as one by plain name, the definition of this worker decides.
 */
export function activityHandler(definition: ActivityDefinition): WorkHandler {
  const defaults = toAttemptDefaults(definition.defaults);
  return {
    label: `activity ${JSON.stringify(definition.name)}`,
    inputSchema: definition.inputSchema,
    isolated: definition.isolated,
    hasOnFail: false,
    options: (item) =>
      item.options === null ? defaults : { ...defaults, ...decodeWorkOptions(item.options) },
    run: (context, input) => definition.handler(context, input),
    ...(definition.onAbandoned !== undefined && {
      onAbandoned: (output, context) => definition.onAbandoned?.(output, context),
    }),
  };
}

/** The handlers of a worker, one for each kind and name of a work item. */
export class WorkHandlers {
  readonly #byKind: Readonly<Record<WorkItem['kind'], Map<string, WorkHandler>>>;

  constructor(registry: Registry, tasks: TaskRegistry, provider: Provider) {
    const definitions = tasks.all();
    this.#byKind = {
      activity: new Map(registry.activities().map((one) => [one.name, activityHandler(one)])),
      task: new Map(definitions.map((one) => [one.name, taskHandler(one)])),
      onFail: new Map(definitions.map((one) => [one.name, onFailHandler(one, provider)])),
    };
  }

  find({ kind, name }: WorkItem): WorkHandler | undefined {
    return this.#byKind[kind].get(name);
  }

  activityNames(): readonly string[] {
    return [...this.#byKind.activity.keys()];
  }

  /** The tasks that nothing but the slots of the worker bounds. */
  unboundedTasks(): readonly string[] {
    return [...this.#byKind.task]
      .filter(([, { limiter }]) => limiter === undefined)
      .map(([name]) => name);
  }

  limiters(): readonly TaskLimiter[] {
    return [...this.#byKind.task.values()].flatMap(({ limiter }) => limiter ?? []);
  }
}

/** The handler of a task: how it is tried is its definition's business, so that a deploy mends what waits. */
export function taskHandler(definition: TaskDefinition): WorkHandler {
  const options = attemptOptions(definition);
  return {
    label: `task ${JSON.stringify(definition.name)}`,
    inputSchema: definition.inputSchema,
    isolated: definition.isolated,
    limiter: TaskLimiter.of(definition),
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
    label: what,
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

/** Has a definition dispose of what its handler returned too late; what goes wrong is logged. */
export async function disposeOf(
  parts: {
    readonly item: WorkItem;
    readonly handler: WorkHandler;
    readonly options: ResolvedOptions;
    readonly client: TaskClient;
  },
  payload: Payload | null,
): Promise<void> {
  const { item, handler, options, client } = parts;
  const { instanceId, name } = item;
  const { logger: log } = options;
  try {
    const context = { instanceId, name, attempt: 1, client, log };
    await handler.onAbandoned?.(decodePayload(payload), context);
  } catch (error) {
    log.error({ error, instanceId, name }, 'onAbandoned failed; the result is not disposed of');
  }
}
