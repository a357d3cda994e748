import {
  admissionNames,
  readAdmission,
  refuseDebounce,
  type Admission,
  type AdmissionOptions,
  refuseTaskEvent,
  type ConflictPlan,
  type OnConflict,
} from '../../model/admission-options.ts';
import type { StandardSchema, TaskRef, TaskRunDefaults } from '../../model/definition.ts';
import { toMs, type Duration } from '../../model/values/duration.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import { checkInstanceId, checkName } from '../../model/values/names.ts';
import { invalid, readFields } from '../../model/option-fields.ts';
import {
  readStartSettings,
  readTime,
  refuseBoth,
  startSettingNames,
  type CommonStartOptions,
  type StartSettings,
} from '../../model/start-settings.ts';
import { readAttempt } from '../../model/values/start-attempt.ts';
import type { TaskCall } from '../client-backend.ts';
import type { StartedHandle } from '../handle.ts';
import {
  encodeChecked,
  encodeInput,
  readDefinition,
  readReplacement,
  type StartArguments,
} from './start-request.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { NewTask } from '../../providers/contract/tasks.ts';

/** Options of a task run. */
export interface RunTaskOptions extends CommonStartOptions, AdmissionOptions {
  /** The id of the run; it makes the call idempotent. Default: generated. */
  readonly id?: string | undefined;
  /**
   * What happens if the id belongs to a run of the task with another input. Default: `reject`. `terminateExisting`: the
   * handler of a running run loses its lease and its signal aborts. A run whose `onFail` handler has not finished is not
   * replaced.
   */
  readonly onConflict?: OnConflict | undefined;
  /** With `terminateExisting`: a repeated call with this key replaces nothing. Default: generated per call. */
  readonly replaceKey?: string | undefined;
  /** The run ends as `expired` if it has not started this long after it could. Default: that of the definition. */
  readonly expiresIn?: Duration | undefined;
  /** The run ends as `expired` if it has not started by then; excludes `expiresIn`. */
  readonly expiresAt?: Date | number | undefined;
}

/** The arguments of `runTask` after the definition. */
export type RunTaskArguments<Input> = StartArguments<Input, RunTaskOptions>;

/** One request of `runTasks`. */
export type TaskRequest<Task extends TaskRef | string = TaskRef | string> = {
  readonly task: Task;
  readonly options?: RunTaskOptions | undefined;
} & InputField<Task extends TaskRef<infer Input> ? Input : unknown>;

type InputField<Input> = undefined extends Input
  ? { readonly input?: Input }
  : { readonly input: Input };

/** The handles of `runTasks`, in the order of its requests. */
export type TaskHandles<Tasks extends readonly (TaskRef | string)[]> = {
  readonly [Index in keyof Tasks]: StartedHandle<
    Tasks[Index] extends TaskRef<infer _Input, infer Output> ? Output : unknown
  >;
};

/** The task of a run. */
export interface TaskTarget {
  readonly name: string;
  readonly schema: StandardSchema | undefined;
  readonly defaults: TaskRunDefaults | undefined;
}

/** Options of a task run, checked. Durations count from the time the store gets the call. */
export interface TaskSettings extends StartSettings, Admission {
  readonly priority: number;
  readonly expiresInMs?: number | undefined;
  readonly expiresAt?: number | undefined;
  /** Whether a handler runs after a failure. */
  readonly onFail: boolean;
  readonly onConflict?: ConflictPlan | undefined;
  /** With `terminateExisting`: identifies this call, so that its repeat replaces nothing. */
  readonly replaceKey?: string | undefined;
}

const optionNames = [
  'id',
  'onConflict',
  'replaceKey',
  'expiresIn',
  'expiresAt',
  ...admissionNames,
  ...startSettingNames,
] as const;

/** Reads a definition or a plain name. Throws `INVALID_INPUT` for any other value. */
export function readTask(task: unknown): TaskTarget {
  if (typeof task === 'string') {
    return { name: checkName(task, 'Task name'), schema: undefined, defaults: undefined };
  }
  return readDefinition('task', task, (given) => ({
    name: checkName(given.name, 'Task name'),
    schema: given.inputSchema,
    defaults: given.runDefaults,
  }));
}

/** Checks the options of a run. */
export function readRunTaskOptions(
  options: unknown,
  { defaults }: Pick<TaskTarget, 'defaults'>,
  where = 'runTask()',
): TaskSettings & { readonly id: string | undefined } {
  if (where !== 'runTask()') refuseDebounce(options, where);
  refuseTaskEvent(options, where);
  if (options === undefined) {
    return {
      id: undefined,
      priority: defaults?.priority ?? 0,
      expiresInMs: defaults?.expiresInMs,
      onFail: defaults?.onFail === true,
    };
  }
  const given = readFields(options, where, optionNames);
  const { id, expiresIn, expiresAt } = given;
  refuseBoth('expiresIn', expiresIn, 'expiresAt', expiresAt);
  return {
    id: id === undefined ? undefined : checkInstanceId(id),
    priority: defaults?.priority ?? 0,
    ...readStartSettings(given),
    expiresInMs: readExpiresIn(expiresIn, expiresAt === undefined ? defaults : undefined),
    expiresAt: readTime('expiresAt', expiresAt),
    ...readAdmission(given),
    ...readReplacement(given),
    onFail: defaults?.onFail === true,
  };
}

/**
 * Returns the times of a run for the store, which counts durations by its own clock. Throws `INVALID_INPUT` for an
 * expiry that leaves no time to start.
 */
export function toTaskTimes(
  { delayMs, runAt, expiresInMs, expiresAt }: TaskSettings,
  nowMs: number,
): Pick<NewTask, 'delayMs' | 'runAt' | 'expiresInMs' | 'expiresAt'> {
  const startsAt = Math.max(nowMs, delayMs === undefined ? (runAt ?? nowMs) : nowMs + delayMs);
  if (expiresInMs === 0 || (expiresAt !== undefined && expiresAt <= startsAt)) {
    const start = startsAt === nowMs ? 'in the past' : 'before the run may start';
    throw new PerdureError('INVALID_INPUT', `The expiry is ${start}. Choose a later one.`);
  }
  return {
    ...(delayMs !== undefined && delayMs > 0 && { delayMs }),
    ...(runAt !== undefined && runAt > nowMs && { runAt: Math.ceil(runAt) }),
    ...(expiresInMs !== undefined && { expiresInMs }),
    ...(expiresAt !== undefined && { expiresAt: Math.ceil(expiresAt) }),
  };
}

function readExpiresIn(given: unknown, defaults: TaskRunDefaults | undefined): number | undefined {
  return given === undefined ? defaults?.expiresInMs : toMs(given as Duration, 'expiresIn');
}

/** Checks and encodes a task run. `newId` generates its id, unless the caller chose one. */
export function readTaskRun(
  { task, input, options }: Readonly<Partial<Record<'task' | 'input' | 'options', unknown>>>,
  { limitBytes, newId }: { readonly limitBytes: number; readonly newId: () => string },
): TaskCall | Promise<TaskCall> {
  const target = readTask(task);
  const settings = readRunTaskOptions(options, target);
  const { name, schema } = target;
  const encoding = { kind: 'Task', name, schema, limitBytes } as const;
  const toCall = (payload: Payload | null): TaskCall => {
    const hasGeneratedId = settings.id === undefined;
    const id = settings.id ?? newId();
    return { ...settings, ...readAttempt(options), id, hasGeneratedId, name, payload };
  };
  // Without a schema, nothing is awaited.
  if (schema === undefined) return toCall(encodeChecked(input, encoding));
  return encodeInput(input, encoding).then(toCall);
}

/** Checks the requests of `runTasks`. */
export function readTaskRequests(
  requests: unknown,
): readonly { readonly task?: unknown; readonly input?: unknown; readonly options?: unknown }[] {
  if (!Array.isArray(requests)) throw invalid('The batch', requests, 'an array of requests');
  return requests.map((request: unknown) =>
    readFields(request, 'a request of runTasks()', ['task', 'input', 'options'] as const),
  );
}
