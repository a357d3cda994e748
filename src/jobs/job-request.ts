import {
  readStartEvent,
  readStartOptions,
  readTarget,
  type StartOptions,
  type StartArguments,
} from '../client/starting/start-request.ts';
import {
  readRunTaskOptions,
  readTask,
  type RunTaskOptions,
  type TaskSettings,
} from '../client/starting/task-request.ts';
import {
  type AdmissionOptions,
  readOnConflict,
  type EncodedEvent,
  type OnConflict,
  type StartEvent,
} from '../model/admission-options.ts';
import type { FlowRef, StandardSchema, OrchestrationRef, TaskRef } from '../model/definition.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { encodePayload } from '../model/values/payload.ts';
import type { StartSettings } from '../model/start-settings.ts';
import { checkPriority, invalid } from '../model/option-fields.ts';
import { randomToken, timeOrderedId } from '../model/values/random-id.ts';
import { validateInput } from '../model/values/validate-input.ts';
import type { JobRequest } from './backend.ts';
import type { Job } from './job.ts';

/**
 * What a submission does if its id is taken. A job cannot attach to an existing run. `reject` (default): rejects, whatever the
 * input. `terminateExisting`: replaces a run of the same definition that is neither a child nor a job.
 */
type OnJobConflict = Exclude<OnConflict, 'useExisting'>;

/** Options of a job that runs an orchestration or a flow. */
interface JobStartOptions<EventValue = unknown> extends Omit<
  StartOptions<EventValue>,
  keyof AdmissionOptions | 'event' | 'onConflict' | 'replaceKey'
> {
  /** Raised with the start, in one transaction. Never raised at an existing instance. */
  readonly event?: StartEvent<EventValue> | undefined;
  /** Default: `reject`. */
  readonly onConflict?: OnJobConflict | undefined;
}

/** Options of a job that runs a task. */
interface JobTaskOptions extends Omit<RunTaskOptions, 'debounce' | 'onConflict' | 'replaceKey'> {
  /** Default: `reject`. */
  readonly onConflict?: OnJobConflict | undefined;
}

/** Options of a job. */
export interface SubmitOptions extends JobStartOptions, JobTaskOptions {
  /** The kind of a plain name. Default `'orchestration'`. */
  readonly kind?: 'orchestration' | 'task' | undefined;
  /** For a plain name: whether its definition has an `onAbandoned` hook. Default false. */
  readonly disposable?: boolean | undefined;
}

/** A job that can be sent once its input is validated. */
export interface ReadJob {
  readonly request: JobRequest;
  /** Rejects if the input is invalid; `undefined` without a schema. */
  readonly checked: Promise<void> | undefined;
}

export interface JobContext {
  readonly sessionId: string;
  readonly nowMs: number;
  readonly payloadLimitBytes: number;
}

interface Target {
  readonly kind: 'orchestration' | 'task';
  readonly name: string;
  readonly id: string | undefined;
  readonly version: string | null;
  readonly settings: StartSettings;
  readonly task: TaskSettings | null;
  readonly event?: EncodedEvent | undefined;
  readonly onConflict?: 'terminateExisting' | undefined;
  readonly schema: StandardSchema | undefined;
  readonly disposable: boolean;
  readonly input: unknown;
}

/** Checks a submission and encodes its input immediately, before the caller can change it. */
export function readJob(
  definition: unknown,
  [input, options]: readonly unknown[],
  { sessionId, nowMs, payloadLimitBytes }: JobContext,
): ReadJob {
  const target = readJobTarget(definition, input, options, payloadLimitBytes);
  const { kind, name, version, task, disposable, settings, event, onConflict } = target;
  const what = `${kind === 'task' ? 'Task' : 'Orchestration'} ${JSON.stringify(name)}`;
  const payload = encodePayload(target.input, `The input of ${what}`, payloadLimitBytes);
  const instanceId = target.id ?? timeOrderedId(nowMs);
  const key = { sessionId, instanceId, incarnation: randomToken() };
  return {
    request: {
      key,
      kind,
      name,
      version,
      payload,
      disposable,
      task,
      ...settings,
      ...(event !== undefined && { event }),
      ...(onConflict !== undefined && { onConflict }),
    },
    checked: target.schema && check(target.schema, target.input, what),
  };
}

async function check(schema: StandardSchema, input: unknown, what: string): Promise<void> {
  await validateInput(schema, input, what);
}

function readJobTarget(
  definition: unknown,
  input: unknown,
  options: unknown,
  limitBytes: number,
): Target {
  const { kind, disposable, ...others } = (options ?? {}) as SubmitOptions;
  const given = options === undefined || !isObject(options) ? options : others;
  const isDisposable = readDisposable(disposable, definition);
  if (kindOf(definition) === 'flow') {
    const { graph, orchestration } = definition as FlowRef;
    const { priority, ...startOptions } = others;
    const prioritized = priority !== undefined && { priority: checkPriority(priority) };
    const flowInput = { flow: graph, input, ...prioritized };
    const run = readOrchestration(orchestration, flowInput, given && startOptions, limitBytes);
    return { ...run, disposable: isDisposable || readDisposable(undefined, orchestration) };
  }
  const isTask =
    kindOf(definition) === 'task' || (typeof definition === 'string' && readKind(kind) === 'task');
  return isTask
    ? { ...readTaskRun(definition, input, given), disposable: isDisposable }
    : { ...readOrchestration(definition, input, given, limitBytes), disposable: isDisposable };
}

function readOrchestration(
  definition: unknown,
  input: unknown,
  options: unknown,
  limitBytes: number,
): Omit<Target, 'disposable'> {
  const { name, version, schema } = readTarget(definition);
  const { event, onConflict, ...others } = (options ?? {}) as SubmitOptions;
  const chosen = readStartOptions(isObject(options) ? others : options, 'submit()');
  const replaces = readJobConflict({ id: chosen.id, event, onConflict });
  return {
    kind: 'orchestration',
    name,
    id: chosen.id,
    version: chosen.version ?? version,
    settings: chosen.settings,
    task: null,
    event: event && readStartEvent(event, limitBytes, 'submit()'),
    onConflict: replaces,
    schema,
    input,
  };
}

function readTaskRun(
  definition: unknown,
  input: unknown,
  options: unknown,
): Omit<Target, 'disposable'> {
  const target = readTask(definition);
  readJobConflict(options ?? {});
  const { id, ...task } = readRunTaskOptions(options, target, 'submit()');
  return {
    kind: 'task',
    name: target.name,
    id,
    version: null,
    settings: {},
    task,
    schema: target.schema,
    input,
  };
}

/** Checks `onConflict` of a job. Throws `INVALID_OPTION` for `useExisting`. */
function readJobConflict(
  given: Parameters<typeof readOnConflict>[0],
): 'terminateExisting' | undefined {
  const onConflict = readOnConflict(given);
  if (onConflict !== 'useExisting') return onConflict;
  throw new PerdureError(
    'INVALID_OPTION',
    "`onConflict: 'useExisting'` in submit(): a job owns its run, which ends with its caller, and cannot attach to an existing one. Use start() and stream(), or `'terminateExisting'`.",
  );
}

function readKind(kind: unknown): 'orchestration' | 'task' {
  if (kind === undefined || kind === 'orchestration') return 'orchestration';
  if (kind === 'task') return 'task';
  throw invalid('kind', kind, "'orchestration' or 'task'");
}

function readDisposable(given: unknown, definition: unknown): boolean {
  if (given !== undefined && typeof given !== 'boolean') {
    throw invalid('disposable', given, 'true or false');
  }
  return given ?? (isObject(definition) && typeof definition['onAbandoned'] === 'function');
}

function kindOf(definition: unknown): unknown {
  return isObject(definition) ? definition['kind'] : undefined;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return (typeof value === 'object' || typeof value === 'function') && value !== null;
}

/** Submits jobs: a client, in its own session, or a session. */
export interface Submitter {
  /**
   * Submits a run that is attached to its caller, without waiting. Throws for invalid arguments; `result()` rejects with
   * every other error.
   */
  submit<Input, Output, EventValue = unknown>(
    definition: OrchestrationRef<Input, Output>,
    ...args: StartArguments<Input, JobStartOptions<EventValue>>
  ): Job<Output>;
  submit<Input, Output>(
    task: TaskRef<Input, Output>,
    ...args: StartArguments<Input, JobTaskOptions>
  ): Job<Output>;
  submit<Input, Output, EventValue = unknown>(
    flow: FlowRef<Input, Output>,
    ...args: StartArguments<Input, JobStartOptions<EventValue>>
  ): Job<Output>;
  submit(name: string, input?: unknown, options?: SubmitOptions): Job;
}
