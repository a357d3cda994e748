import type { StandardSchema, TaskRef } from '../model/definition.ts';
import { PerdureError } from '../model/failures/errors.ts';
import type { Failure } from '../model/failures/failure.ts';
import {
  resolveRetryPolicy,
  type ResolvedRetryPolicy,
  type RetryPolicy,
} from '../model/retry-policy.ts';
import type { Headers } from '../model/task-options.ts';
import { toMs, type Duration } from '../model/values/duration.ts';
import { checkName } from '../model/values/names.ts';
import { checkPriority } from '../model/values/priority.ts';
import {
  readOnAbandoned,
  type AbandonedContext,
  type OnAbandoned,
} from '../orchestration/abandoned-context.ts';
import type { ActivityClient, AttemptContext } from '../orchestration/activity-context.ts';
import { checkDefinition, checkOptions, checkSchema } from '../orchestration/definition-checks.ts';
import type { InputArguments } from '../orchestration/input-arguments.ts';
import { locateHandler, type IsolatedHandler } from '../orchestration/isolated-activity.ts';
import {
  resolveBreaker,
  type CircuitBreakerOptions,
  type ResolvedBreaker,
} from './circuit-breaker.ts';

/** The part of a client that a task can use. */
export interface TaskClient extends ActivityClient {
  /** Runs a task and answers its handle. */
  runTask<Input, Output>(
    task: TaskRef<Input, Output>,
    ...args: InputArguments<Input, { readonly id?: string | undefined }>
  ): Promise<{ readonly id: string }>;
  runTask(
    task: string,
    input?: unknown,
    options?: { readonly id?: string | undefined },
  ): Promise<{ readonly id: string }>;
}

/** What every handler of a task is given besides its input. */
export interface TaskAttempt extends AttemptContext {
  /** The id of the run. */
  readonly runId: string;
  readonly taskName: string;
  /** What the caller sent along with the input. */
  readonly headers: Headers;
  readonly client: TaskClient;
}

/** What the handler of a task is given besides its input. */
export interface TaskContext extends TaskAttempt {
  /**
   * Asks the store for leave to go past the point from which the work can no longer be undone. Once it resolves,
   * cancel and timeouts no longer reach this run; it rejects if one already has.
   */
  pointOfNoReturn(): Promise<void>;
  /**
   * Cancels this very run: its signal is aborted, and whatever the handler returns or throws afterwards, the run ends
   * as `canceled`, unless it is past its point of no return. Rejects with `OUTSIDE_HANDLER` once the handler has ended.
   */
  cancel(reason?: string): Promise<void>;
}

/** A run that has failed for good, as its handler for failures sees it. */
export interface FailedRun<Input = unknown> {
  /** As the caller passed it: the schema has not parsed it. */
  readonly input: Input;
  readonly failure: Failure;
  /** How many attempts were made. */
  readonly attempts: number;
}

/** What runs after a run has failed for good; it has attempts of its own and survives a crash. */
export interface OnFailOptions<Input> {
  readonly handler: (context: TaskAttempt, failed: FailedRun<Input>) => unknown;
  /** Absent: one attempt. */
  readonly retry?: RetryPolicy | undefined;
  /** How long one attempt may take. */
  readonly attemptTimeout?: Duration | undefined;
}

/** How a task is run. */
export interface TaskOptions<Parsed, Output = unknown, Input = Parsed> {
  /** A Standard Schema that every input must satisfy. Callers pass what it takes, the handler gets what it returns. */
  readonly input?: StandardSchema<Input, Parsed> | undefined;
  /** Absent: one attempt. */
  readonly retry?: RetryPolicy | undefined;
  /** How long one attempt may take. */
  readonly attemptTimeout?: Duration | undefined;
  /** From 0 (default) to 100, higher first, for runs that do not choose one. */
  readonly priority?: number | undefined;
  /** A run that has not started by then ends as `expired`, unless it chooses a time itself. */
  readonly expiresIn?: Duration | undefined;
  /** How many runs of this task one worker runs at once, within its `activityConcurrency`. */
  readonly concurrency?: number | undefined;
  /** Asked before the first attempt: where it answers `false`, the run ends as `skipped`. */
  readonly condition?:
    ((input: Parsed, context: TaskAttempt) => boolean | Promise<boolean>) | undefined;
  /** Makes a worker pause this task while it keeps failing. */
  readonly circuitBreaker?: CircuitBreakerOptions | undefined;
  /** What to do after a run has failed for good; a run that is canceled, skipped or expired has not failed. */
  readonly onFail?: OnFailOptions<Input> | undefined;
  /** Disposes of a result that came although the run had been asked to stop, or the caller of the job had gone. */
  readonly onAbandoned?: OnAbandoned<Output> | undefined;
}

/** A single durable background job: one handler, no orchestration code. */
export interface TaskDefinition<Input = unknown, Output = unknown, Parsed = Input> extends TaskRef<
  Input,
  Output
> {
  readonly retry?: ResolvedRetryPolicy | undefined;
  readonly attemptTimeoutMs?: number | undefined;
  readonly concurrency?: number | undefined;
  readonly circuitBreaker?: ResolvedBreaker | undefined;
  readonly onFail?: OnFailDefinition<Input> | undefined;
  /** Where its handler is found, when it runs in a thread of its own. */
  readonly isolated?: { readonly module: string; readonly exportName: string };
  // Methods, so that definitions of all inputs fit into one list.
  handler(context: TaskContext, input: Parsed): Output | Promise<Output>;
  condition?(input: Parsed, context: TaskAttempt): boolean | Promise<boolean>;
  onAbandoned?(output: Output, context: AbandonedContext): unknown;
}

/** The handler for failures of a task. */
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
  'condition',
  'circuitBreaker',
  'onFail',
  'onAbandoned',
];

/** Defines a task: a background job that is run at least once. Its input and result are stored as JSON. */
export function task<Parsed = void, Output = unknown, Input = Parsed>(
  name: string,
  handler: (context: TaskContext, input: Parsed) => Output | Promise<Output>,
  options: TaskOptions<Parsed, NoInfer<Output>, Input> = {},
): TaskDefinition<Input, Output, Parsed> {
  const what = `task '${checkName(name, 'Task name')}'`;
  checkDefinition({ what, handler, options, known });
  const { input, priority, expiresIn, concurrency, condition, circuitBreaker, onFail } = options;
  checkConcurrency(what, concurrency);
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
    ...(concurrency !== undefined && { concurrency }),
    ...(condition !== undefined && { condition }),
    ...(circuitBreaker !== undefined && { circuitBreaker: readBreaker(what, circuitBreaker) }),
    ...(onFail !== undefined && { onFail: readOnFail(what, onFail) }),
    ...readOnAbandoned(what, options.onAbandoned),
    handler,
  });
}

function readExpiry(what: string, expiresIn: Duration): number {
  const ms = toMs(expiresIn, 'expiresIn');
  if (ms > 0) return ms;
  throw new PerdureError(
    'INVALID_OPTION',
    `expiresIn of ${what} is no time at all, so that its runs could never start. Use more, or leave it out.`,
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
  checkFunction(`The handler for failures of ${what}`, onFail.handler);
  return Object.freeze({ ...resolveAttempts(onFail), handler: onFail.handler });
}

function readBreaker(what: string, options: CircuitBreakerOptions): ResolvedBreaker {
  checkOptions(`circuitBreaker of ${what}`, options, ['failures', 'openFor']);
  return resolveBreaker(options);
}

function checkFunction(what: string, value: unknown): void {
  if (typeof value === 'function') return;
  throw new PerdureError('INVALID_OPTION', `${what} is no function. Pass a function.`);
}

function checkConcurrency(what: string, concurrency: number | undefined): void {
  if (concurrency === undefined || (Number.isSafeInteger(concurrency) && concurrency >= 1)) return;
  throw new PerdureError(
    'INVALID_OPTION',
    `The concurrency of ${what} is ${String(concurrency)}; use a whole number of 1 or more.`,
  );
}

/** The tasks that a worker can run, by name. */
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
        'Something registered as a task is not one. Define it with task(name, handler).',
      );
    }
    if (this.#tasks.has(task.name)) {
      throw new PerdureError(
        'ALREADY_REGISTERED',
        `Task '${task.name}' is registered twice. Give one of them another name.`,
      );
    }
    this.#tasks.set(task.name, task);
  }
}

/**
 * Defines a task that runs in a worker thread of its own. A handler that ignores its signal past the grace period is
 * really stopped: its thread is terminated. Conditions and handlers for failures run in the worker itself.
 */
export function isolatedTask<Parsed = void, Output = unknown, Input = Parsed>(
  name: string,
  handler: IsolatedHandler,
  options: TaskOptions<Parsed, NoInfer<Output>, Input> = {},
): TaskDefinition<Input, Output, Parsed> {
  const isolated = locateHandler(handler);
  const runsElsewhere = (): never => {
    throw new Error(`Task '${name}' runs in a thread of its own.`);
  };
  const definition = task<Parsed, Output, Input>(name, runsElsewhere, options);
  return Object.freeze({ ...definition, isolated });
}
