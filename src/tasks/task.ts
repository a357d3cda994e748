import type { StandardSchema, TaskRef } from '../model/definition.ts';
import { PerdureError } from '../model/failures/errors.ts';
import type { Failure } from '../model/failures/failure.ts';
import { checkName } from '../model/values/names.ts';
import { readLimits, type LimitOptions, type ResolvedLimits } from '../model/limit-options.ts';
import { checkPriority } from '../model/option-fields.ts';
import {
  resolveRetryPolicy,
  type ResolvedRetryPolicy,
  type RetryPolicy,
} from '../model/retry-policy.ts';
import { toMs, type Duration } from '../model/values/duration.ts';
import type {
  AbandonedContext,
  OnAbandoned,
  ActivityClient,
  AttemptContext,
  TransactionContext,
} from '../orchestration/activity-context.ts';
import {
  checkDefinition,
  checkOptions,
  checkSchema,
  readOnAbandoned,
} from '../orchestration/definition-checks.ts';
import { locateHandler, type IsolatedHandler } from '../orchestration/activity.ts';
import {
  readBatch,
  type BatchDefinition,
  type BatchHandler,
  type BatchOutput,
  type BatchOptions,
} from './batch.ts';
import {
  resolveBreaker,
  type CircuitBreakerOptions,
  type ResolvedBreaker,
} from './circuit-breaker.ts';

/** The client of a task handler: everything that an application's client can do, except closing it. */
export type TaskClient = ActivityClient;

/** The context of a task's condition and `onFail` handler. */
export interface TaskAttempt extends AttemptContext {
  /** The id of the run. */
  readonly runId: string;
  readonly taskName: string;
  readonly client: TaskClient;
}

/** The context of a task handler. */
export interface TaskContext extends TaskAttempt, TransactionContext {
  /**
   * Marks the point after which the work cannot be undone. Once it resolves, cancels and timeouts no longer reach
   * this
   * run. Rejects if one already has.
   */
  pointOfNoReturn(): Promise<void>;
  /**
   * Cancels this run: aborts its signal. The run ends as `canceled` whatever the handler returns or throws, unless it
   * is
   * past its point of no return. Rejects with `OUTSIDE_HANDLER` once the handler has ended.
   */
  cancel(reason?: string): Promise<void>;
}

/** A failed run, as passed to `onFail`. */
export interface FailedRun<Input = unknown> {
  /** The input as the caller passed it, not parsed by the schema. */
  readonly input: Input;
  readonly failure: Failure;
  /** Number of attempts. */
  readonly attempts: number;
}

/** The `onFail` handler, which runs after the final failure of a run. It is durable and has its own attempts. */
export interface OnFailOptions<Input> {
  readonly handler: (context: TaskAttempt, failed: FailedRun<Input>) => unknown;
  /** Absent: one attempt. */
  readonly retry?: RetryPolicy | undefined;
  /** How long one attempt may take. */
  readonly attemptTimeout?: Duration | undefined;
}

/** Options of `task()`. */
export interface TaskOptions<Parsed, Output = unknown, Input = Parsed> extends LimitOptions {
  /** Standard Schema of the input. Callers pass its input type; the handler gets its output type. */
  readonly input?: StandardSchema<Input, Parsed> | undefined;
  /** Absent: one attempt. */
  readonly retry?: RetryPolicy | undefined;
  /** How long one attempt may take. */
  readonly attemptTimeout?: Duration | undefined;
  /** Default priority of runs, from 0 (default) to 100. Higher runs first. */
  readonly priority?: number | undefined;
  /** Default time after which a run that has not started ends as `expired`. */
  readonly expiresIn?: Duration | undefined;
  /** Checked before the first attempt. If it returns `false`, the run ends as `skipped`. */
  readonly condition?:
    | ((input: Parsed, context: TaskAttempt) => boolean | Promise<boolean>)
    | undefined;
  /** Pauses this task in a worker that sees consecutive failures. */
  readonly circuitBreaker?: CircuitBreakerOptions | undefined;
  /** Runs after the final failure of a run. Not for runs that are canceled, skipped or expired. */
  readonly onFail?: OnFailOptions<Input> | undefined;
  /** Disposes of a result that came after a cancel, or after the caller of the job disappeared. */
  readonly onAbandoned?: OnAbandoned<Output> | undefined;
}

/** Options of `task()` with a handler that gets several runs at a time. */
export interface BatchTaskOptions<Parsed, Output = unknown, Input = Parsed> extends TaskOptions<
  Parsed,
  Output,
  Input
> {
  /** Groups runs: the handler gets up to `max` of them, and settles each. */
  readonly batch: BatchOptions;
}

/** A durable background job: one handler, no orchestration code. */
export interface TaskDefinition<Input = unknown, Output = unknown, Parsed = Input>
  extends TaskRef<Input, Output>, ResolvedLimits {
  readonly retry?: ResolvedRetryPolicy | undefined;
  readonly attemptTimeoutMs?: number | undefined;
  readonly circuitBreaker?: ResolvedBreaker | undefined;
  readonly onFail?: OnFailDefinition<Input> | undefined;
  /** The handler gets several runs at a time. */
  readonly batch?: BatchDefinition<Parsed, Output> | undefined;
  /** Module and export of an isolated handler. */
  readonly isolated?: { readonly module: string; readonly exportName: string };
  // Methods are bivariant, so that definitions with different inputs fit into one list.
  handler(context: TaskContext, input: Parsed): Output | Promise<Output>;
  condition?(input: Parsed, context: TaskAttempt): boolean | Promise<boolean>;
  onAbandoned?(output: Output, context: AbandonedContext): unknown;
}

/** The resolved `onFail` options. */
interface OnFailDefinition<Input = unknown> {
  readonly retry?: ResolvedRetryPolicy | undefined;
  readonly attemptTimeoutMs?: number | undefined;
  handler(context: TaskAttempt, failed: FailedRun<Input>): unknown;
}

const known = [
  'input',
  'retry',
  'attemptTimeout',
  'priority',
  'expiresIn',
  'concurrency',
  'rate',
  'condition',
  'circuitBreaker',
  'onFail',
  'onAbandoned',
  'batch',
];

/**
 * Defines a task whose handler gets several runs at a time. Each run keeps its own attempts, lease, signal and outcome.
 */
export function task<Parsed = void, Output = unknown, Input = Parsed, Returned = never>(
  name: string,
  handler: BatchHandler<Parsed, Output, Returned>,
  options: BatchTaskOptions<Parsed, NoInfer<BatchOutput<Output, Returned>>, Input>,
): TaskDefinition<Input, BatchOutput<Output, Returned>, Parsed>;
/** Defines a task: a background job that runs at least once. Input and result are stored as JSON. */
export function task<Parsed = void, Output = unknown, Input = Parsed>(
  name: string,
  handler: (context: TaskContext, input: Parsed) => Output | Promise<Output>,
  options?: TaskOptions<Parsed, NoInfer<Output>, Input>,
): TaskDefinition<Input, Output, Parsed>;
export function task<Parsed, Output, Input>(
  name: string,
  handler:
    | TaskDefinition<Input, Output, Parsed>['handler']
    | BatchDefinition<Parsed, Output>['handler'],
  options: TaskOptions<Parsed, Output, Input> & { readonly batch?: BatchOptions } = {},
): TaskDefinition<Input, Output, Parsed> {
  const what = `task '${checkName(name, 'Task name')}'`;
  checkDefinition({ what, handler, options, known });
  const { input, priority, expiresIn, condition, circuitBreaker, onFail, batch } = options;
  if (condition !== undefined) checkFunction(`The condition of ${what}`, condition);
  return Object.freeze({
    kind: 'task',
    name,
    inputSchema: checkSchema(input, what),
    runDefaults: Object.freeze({
      ...(priority !== undefined && { priority: checkPriority(priority) }),
      ...(expiresIn !== undefined && { expiresInMs: readExpiry(what, expiresIn) }),
      onFail: onFail !== undefined,
    }),
    ...resolveAttempts(options),
    ...readLimits(what, options),
    ...(condition !== undefined && { condition }),
    ...(circuitBreaker !== undefined && { circuitBreaker: readBreaker(what, circuitBreaker) }),
    ...(onFail !== undefined && { onFail: readOnFail(what, onFail) }),
    ...readOnAbandoned(what, options.onAbandoned),
    ...(batch === undefined
      ? { handler: handler as TaskDefinition<Input, Output, Parsed>['handler'] }
      : toBatchHandler(what, handler as BatchDefinition<Parsed, Output>['handler'], batch)),
  });
}

function toBatchHandler<Parsed, Output>(
  what: string,
  handler: BatchDefinition<Parsed, Output>['handler'],
  options: BatchOptions,
) {
  return {
    batch: Object.freeze({ ...readBatch(what, options), handler }),
    handler: (): never => {
      throw new Error(`The handler of ${what} gets batches of runs.`);
    },
  };
}

/**
 * Defines a task that runs in its own worker thread. The thread is terminated if the handler ignores its signal past
 * the
 * grace. `condition` and `onFail` run in the worker's thread.
 */
export function isolatedTask<Parsed = void, Output = unknown, Input = Parsed>(
  name: string,
  handler: IsolatedHandler,
  options: TaskOptions<Parsed, NoInfer<Output>, Input> = {},
): TaskDefinition<Input, Output, Parsed> {
  const isolated = locateHandler(handler);
  if ('batch' in options && options.batch !== undefined) throw isolatedBatch(name);
  const runsElsewhere = (): never => {
    throw new Error(`Task ${JSON.stringify(name)} runs in its own thread.`);
  };
  const definition = task<Parsed, Output, Input>(name, runsElsewhere, options);
  return Object.freeze({ ...definition, isolated });
}

function isolatedBatch(name: string): PerdureError {
  return new PerdureError(
    'INVALID_OPTION',
    `Invalid \`batch\` of isolated task ${JSON.stringify(name)}: a thread runs one handler for one run. Use task(), or omit \`batch\`.`,
  );
}

function readExpiry(what: string, expiresIn: Duration): number {
  const ms = toMs(expiresIn, 'expiresIn');
  if (ms > 0) return ms;
  throw new PerdureError(
    'INVALID_OPTION',
    `Invalid \`expiresIn\` of ${what}: its runs would expire before they start. Use a longer time, or omit it.`,
  );
}

function resolveAttempts({
  retry,
  attemptTimeout,
}: Pick<TaskOptions<never>, 'retry' | 'attemptTimeout'>) {
  return {
    ...(retry !== undefined && { retry: resolveRetryPolicy(retry) }),
    ...(attemptTimeout !== undefined && {
      attemptTimeoutMs: toMs(attemptTimeout, 'attemptTimeout'),
    }),
  };
}

function readOnFail<Input>(what: string, onFail: OnFailOptions<Input>): OnFailDefinition<Input> {
  checkOptions(`onFail of ${what}`, onFail, ['handler', 'retry', 'attemptTimeout']);
  checkFunction(`onFail.handler of ${what}`, onFail.handler);
  return Object.freeze({ ...resolveAttempts(onFail), handler: onFail.handler });
}

function readBreaker(what: string, options: CircuitBreakerOptions): ResolvedBreaker {
  checkOptions(`circuitBreaker of ${what}`, options, ['failures', 'openFor']);
  return resolveBreaker(options);
}

function checkFunction(what: string, value: unknown): void {
  if (typeof value === 'function') return;
  throw new PerdureError('INVALID_OPTION', `${what} must be a function.`);
}

/** The tasks of a worker, by name. */
export class TaskRegistry {
  readonly #tasks = new Map<string, TaskDefinition>();

  constructor(tasks: readonly TaskDefinition[]) {
    for (const task of tasks) this.#add(task);
  }

  find(name: string): TaskDefinition | undefined {
    return this.#tasks.get(name);
  }

  all(): readonly TaskDefinition[] {
    return [...this.#tasks.values()];
  }

  #add(task: TaskDefinition): void {
    const given = task as Partial<TaskDefinition> | null | undefined;
    if (given?.kind !== 'task' || typeof given.handler !== 'function') {
      throw new PerdureError(
        'INVALID_OPTION',
        'Invalid entry in `tasks`. Define it with task(name, handler).',
      );
    }
    if (this.#tasks.has(task.name)) {
      throw new PerdureError(
        'ALREADY_REGISTERED',
        `Task ${JSON.stringify(task.name)} is registered twice. Rename one of them.`,
      );
    }
    this.#tasks.set(task.name, task);
  }
}
