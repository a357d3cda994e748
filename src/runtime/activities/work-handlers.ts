import {
  decodeActivityOptions,
  type ActivityOptions,
  decodeHeaders,
} from '../../model/work-item-options.ts';
import { toSharedLimits } from '../../model/limit-options.ts';
import { taskActivityName } from '../../model/task-call.ts';
import type { StandardSchema } from '../../model/definition.ts';
import { LockLostError, PerdureError } from '../../model/failures/errors.ts';
import { decodeFailure, platformFailure, toError } from '../../model/failures/failure.ts';
import { decodePayload, type Payload } from '../../model/values/payload.ts';
import type { OnAbandoned } from '../../orchestration/activity-context.ts';
import type { ActivityDefinition } from '../../orchestration/activity.ts';
import { toAttemptDefaults } from '../../orchestration/call-options.ts';
import type { Registry } from '../../orchestration/registry.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import type { TaskClient, TaskRegistry, FailedRun, TaskDefinition } from '../../tasks/task.ts';
import type { ResolvedOptions } from '../options.ts';
import { RunningTaskContext, type RunningActivityContext } from './running-context.ts';
import { WorkLimiter } from './concurrency.ts';
import type { WorkBatch } from '../batches/batch.ts';

/** The handlers of a worker, by kind and name of the work item. */
export class WorkHandlers {
  readonly #byKind: Readonly<Record<WorkItem['kind'], Map<string, WorkHandler>>>;
  /** Whether a definition declares limits that hold over all workers. */
  readonly hasSharedLimits: boolean;

  constructor(registry: Registry, tasks: TaskRegistry, provider: Provider) {
    const definitions = tasks.all();
    this.hasSharedLimits = [...definitions, ...registry.activities()].some(
      (one) => toSharedLimits(one) !== undefined,
    );
    const limits = new Map(definitions.map((one) => [one, toTaskLimits(one)]));
    this.#byKind = {
      activity: new Map([
        ...definitions.map(
          (one) => [taskActivityName(one.name), taskCallHandler(one, limits.get(one))] as const,
        ),
        ...registry.activities().map((one) => [one.name, activityHandler(one)] as const),
      ]),
      task: new Map(definitions.map((one) => [one.name, taskHandler(one, limits.get(one))])),
      onFail: new Map(definitions.map((one) => [one.name, onFailHandler(one, provider)])),
    };
  }

  find({ kind, name }: WorkItem): WorkHandler | undefined {
    return this.#byKind[kind].get(name);
  }

  /** Names of the activities that are fetched with the slots of the worker alone. */
  activityNames(): readonly string[] {
    return [...this.#byKind.activity]
      .filter(([, { limiter, batch }]) => limiter === undefined && batch === undefined)
      .map(([name]) => name);
  }

  /** Names of the tasks that have neither a limiter nor batches. */
  unboundedTasks(): readonly string[] {
    return [...this.#byKind.task]
      .filter(([, { limiter, batch }]) => limiter === undefined && batch === undefined)
      .map(([name]) => name);
  }

  limiters(): readonly WorkLimiter[] {
    const { activity, task } = this.#byKind;
    const all = [...activity.values(), ...task.values()].flatMap(({ limiter, batch }) =>
      limiter === undefined || batch !== undefined ? [] : limiter,
    );
    // A task and the activity that orchestrations call for it share a limiter.
    return [...new Set(all)];
  }

  batches(): readonly WorkBatch[] {
    return [...this.#byKind.task.values()].flatMap(({ batch }) => batch ?? []);
  }
}

/** Call options that the work item stores for its worker. Opaque to the store. */
export interface WorkOptions extends ActivityOptions {
  /** Absent: `'request'`. */
  readonly cancellation?: 'wait' | 'abandon';
}

/** The code for one kind of work item: an activity, a task or a task's `onFail`. */
export interface WorkHandler {
  /** Used in messages, for example `activity "x"`. */
  readonly label: string;
  readonly inputSchema: StandardSchema | undefined;
  /** Module and export of an isolated handler. */
  readonly isolated?: { readonly module: string; readonly exportName: string } | undefined;
  /** Its own limits in this worker: concurrency, and the circuit breaker of a task. Runs and calls of a task share them. */
  readonly limiter?: WorkLimiter | undefined;
  /** The handler gets the run together with others. Then `run` is not called. */
  readonly batch?: WorkBatch | undefined;
  /** Whether an `onFail` handler runs after the final failure. */
  readonly hasOnFail: boolean;
  /** Whether the handler gets the context of a task. */
  readonly isTask: boolean;
  /** Returns the attempt options. Throws `UNDECODABLE` for options that cannot be decoded. */
  options(item: WorkItem): WorkOptions;
  /** Whether the task's condition is false, so that the run is skipped. */
  isSkipped?(context: RunningActivityContext, input: unknown, item: WorkItem): Promise<boolean>;
  /** Reads what the handler needs from the store, before the last check of the lease. */
  load?(input: unknown, item: WorkItem): Promise<unknown>;
  run(context: RunningActivityContext, input: unknown, item: WorkItem, loaded: unknown): unknown;
  /** Disposes of a result whose caller no longer exists. */
  readonly onAbandoned?: OnAbandoned<unknown>;
}

/** The call chose the options, and the item stores them. This worker's definition supplies the defaults. */
function activityHandler(definition: ActivityDefinition): WorkHandler {
  const defaults = toAttemptDefaults(definition.defaults);
  return {
    label: `activity ${JSON.stringify(definition.name)}`,
    isTask: false,
    inputSchema: definition.inputSchema,
    isolated: definition.isolated,
    limiter: WorkLimiter.of({
      names: [definition.name],
      concurrency: definition.concurrency?.perWorker,
    }),
    hasOnFail: false,
    options: (item) =>
      item.options === null ? defaults : { ...defaults, ...decodeActivityOptions(item.options) },
    run: (context, input) => definition.handler(context, input),
    ...(definition.onAbandoned !== undefined && {
      onAbandoned: (output, context) => definition.onAbandoned?.(output, context),
    }),
  };
}

/** Retry settings come from this worker's definition, so that a deploy also applies to queued runs. */
function taskHandler(definition: TaskDefinition, limits: TaskLimits = {}): WorkHandler {
  const options = attemptOptions(definition);
  return {
    label: `task ${JSON.stringify(definition.name)}`,
    isTask: true,
    inputSchema: definition.inputSchema,
    isolated: definition.isolated,
    ...limits,
    hasOnFail: definition.onFail !== undefined,
    options: (item) => withCheckedHeaders(item, options),
    ...(definition.condition !== undefined && {
      // The condition applies only before the first failed attempt.
      isSkipped: async (context, input, item) =>
        item.failures === 0 && (await isSkipped(definition, taskContext(context), input)),
    }),
    run: (context, input) => definition.handler(taskContext(context), input),
    ...(definition.onAbandoned !== undefined && {
      onAbandoned: (output, context) => definition.onAbandoned?.(output, context),
    }),
  };
}

/** A task as an activity, for orchestrations that call it. They handle its failure, so it has no `onFail`. */
function taskCallHandler(definition: TaskDefinition, limits: TaskLimits = {}): WorkHandler {
  const { cancellation: _, ...defaults } = attemptOptions(definition);
  return {
    label: `task ${JSON.stringify(definition.name)}`,
    isTask: true,
    inputSchema: definition.inputSchema,
    isolated: definition.isolated,
    hasOnFail: false,
    options: (item) =>
      item.options === null ? defaults : { ...defaults, ...decodeActivityOptions(item.options) },
    ...limits,
    ...(limits.batch !== undefined &&
      definition.condition !== undefined && {
        isSkipped: async (context, input, item) => {
          await assertNotSkipped(definition, taskContext(context), input, item);
          return false;
        },
      }),
    run: (context, input, item) => {
      const task = taskContext(context);
      // Called in the same iteration, so that a handler that blocks the event loop is detected.
      if (definition.condition === undefined) return definition.handler(task, input);
      return assertNotSkipped(definition, task, input, item).then(() =>
        definition.handler(task, input),
      );
    },
  };
}

/** Throws `TASK_SKIPPED` if the condition of a task that an orchestration calls is false. */
async function assertNotSkipped(
  definition: TaskDefinition,
  context: RunningTaskContext,
  input: unknown,
  { failures }: WorkItem,
): Promise<void> {
  if (definition.condition === undefined || failures > 0) return;
  if (await isSkipped(definition, context, input)) throw skipped(definition.name);
}

type TaskLimits = Pick<WorkHandler, 'limiter' | 'batch'>;

/** The limits of a task in this worker. With batches, its concurrency counts calls of the handler. */
function toTaskLimits(definition: TaskDefinition): TaskLimits {
  const { name: task, batch, concurrency: { perWorker, global } = {}, circuitBreaker } = definition;
  const names = [taskActivityName(task)];
  if (batch === undefined)
    return { limiter: WorkLimiter.of({ task, names, concurrency: perWorker, circuitBreaker }) };
  const { waitMs } = batch;
  // A batch with `global` runs holds every place: it would wait for runs that cannot be claimed.
  const max = Math.min(batch.max, global ?? Infinity);
  const breaker = WorkLimiter.of({ task, circuitBreaker });
  const concurrency = perWorker ?? Infinity;
  const call: WorkBatch['call'] = (context, runs) => batch.handler(context, runs);
  return { limiter: breaker, batch: { task, max, waitMs, concurrency, breaker, call } };
}

// Not retryable: the condition is checked before the first attempt only.
function skipped(task: string): Error {
  const error = new PerdureError(
    'TASK_SKIPPED',
    `Task ${JSON.stringify(task)} was skipped: its condition returned false.`,
  );
  return Object.assign(error, { nonRetryable: true });
}

/** The `onFail` handler of a task. */
function onFailHandler(definition: TaskDefinition, provider: Provider): WorkHandler {
  const { onFail } = definition;
  const label = `the onFail handler of task ${JSON.stringify(definition.name)}`;
  const options = attemptOptions(onFail ?? {});
  return {
    label,
    isTask: true,
    // Not validated: the run may have failed because of its input. `onFail` gets the input as stored.
    inputSchema: undefined,
    hasOnFail: false,
    options: (item) => withCheckedHeaders(item, options),
    load: (input, item) => readFailedRun(provider, item, input),
    run: (context, _input, _item, failedRun) => {
      if (onFail === undefined)
        throw toError(platformFailure('UNREGISTERED', noOnFail(definition.name)));
      return onFail.handler(taskContext(context), failedRun as FailedRun);
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
    // A canceled task run is `canceling` until its handler ends. So every task can pass a point of no return.
    cancellation: 'wait',
  };
}

/** Decodes the headers early, so that corrupt headers fail the attempt before the handler runs. */
function withCheckedHeaders(item: WorkItem, options: WorkOptions): WorkOptions {
  decodeHeaders(item.options);
  return options;
}

function taskContext(context: RunningActivityContext): RunningTaskContext {
  if (context instanceof RunningTaskContext) return context;
  throw new Error('A task handler got the context of an activity.');
}

async function isSkipped(
  definition: TaskDefinition,
  context: RunningTaskContext,
  input: unknown,
): Promise<boolean> {
  let condition: unknown;
  try {
    condition = await definition.condition?.(input, context);
  } catch (cause) {
    context.throwIfCanceled();
    throw conditionFailed(definition.name, 'threw', cause);
  }
  if (typeof condition !== 'boolean') {
    throw conditionFailed(definition.name, `returned ${typeof condition} instead of a boolean`);
  }
  context.throwIfCanceled();
  return !condition;
}

// Not retryable: a condition that throws would throw again.
function conditionFailed(task: string, problem: string, cause?: unknown): Error {
  const error = new PerdureError(
    'CONDITION_FAILED',
    `The condition of task ${JSON.stringify(task)} ${problem}. \`condition\` must return true or false, or a promise of it.`,
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

function noOnFail(task: string): string {
  return `Task ${JSON.stringify(task)} has no \`onFail\` in this worker. Restore it in the definition, or run a worker that has it.`;
}

/** Calls `onAbandoned` with a result that came too late. Logs an error that it throws. */
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
    log.error({ error, instanceId, name }, 'onAbandoned failed, the result is not disposed of');
  }
}
