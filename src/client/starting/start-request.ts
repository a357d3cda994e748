import {
  admissionNames,
  readAdmission,
  type Admission,
  type AdmissionOptions,
  readOnConflict,
  type ConflictPlan,
  type EncodedEvent,
  type OnConflict,
  type StartEvent,
} from '../../model/admission-options.ts';
import type {
  EventToken,
  OrchestrationRef,
  StandardSchema,
  TaskRef,
  UpdateToken,
} from '../../model/definition.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import { invalidOption, readFields } from '../../model/option-fields.ts';
import {
  readStartSettings,
  startSettingNames,
  type CommonStartOptions,
  type StartSettings,
} from '../../model/start-settings.ts';
import { readAttempt, type StartAttempt } from '../../model/values/start-attempt.ts';
import { checkEventKey, checkInstanceId, checkName } from '../../model/values/names.ts';
import { randomToken } from '../../model/values/random-id.ts';
import { encodePayload, type Payload } from '../../model/values/payload.ts';
import { validateEvent, validateInput } from '../../model/values/validate-input.ts';
import type { StartCall } from '../client-backend.ts';
import type { ClientSurface } from '../client.ts';
import type { Handle } from '../handle.ts';

// NoInfer: only the definition sets the type, so a wrong argument is a compile error instead of widening it.

/** The arguments of a start after the definition. The input is optional if it may be `undefined`. */
export type StartArguments<Input, Options = StartOptions> = undefined extends Input
  ? [input?: NoInfer<Input>, options?: Options]
  : [input: NoInfer<Input>, options?: Options];

/** The arguments of `raiseEvent` after the event. The payload is optional if it may be `undefined`. */
export type EventArguments<Value> = undefined extends Value
  ? [payload?: NoInfer<Value>, options?: RaiseEventOptions]
  : [payload: NoInfer<Value>, options?: RaiseEventOptions];

/** Options of a start. */
export interface StartOptions<EventValue = unknown> extends CommonStartOptions, AdmissionOptions {
  /** The id of the instance; it makes the start idempotent. Default: generated. */
  readonly id?: string | undefined;
  /** The version to run. Default: the version of the definition; for a plain name, the newest version of a worker. */
  readonly version?: string | undefined;
  /**
   * Raised with the start, in one transaction. If the id belongs to a live instance of the orchestration, only the event
   * is raised, whatever its input. Rejects with `INSTANCE_OVER` if that instance has ended.
   */
  readonly event?: StartEvent<EventValue> | undefined;
  /** Default: `reject`. */
  readonly onConflict?: OnConflict | undefined;
  /** With `terminateExisting`: a repeated call with this key replaces nothing. Default: generated per call. */
  readonly replaceKey?: string | undefined;
}

/** Options of a run of a flow. `priority` is the one of the steps that set none. */
export type RunFlowOptions<EventValue = unknown> = StartOptions<EventValue>;

/** Options of `raiseEvent`. */
export interface RaiseEventOptions {
  /**
   * Deduplicates the event: while the instance exists, the key raises one event, also after the code has received it and
   * over a continue-as-new. Default: none for a local client; a remote client generates one, so that it can repeat the
   * call after a lost response.
   */
  readonly key?: string | undefined;
}

/** The orchestration of a start. */
export interface StartTarget {
  readonly name: string;
  /** `null`: the worker that runs the first turn chooses its newest version. */
  readonly version: string | null;
  readonly schema: StandardSchema | undefined;
}

/** Reads a definition or a plain name. Throws `INVALID_INPUT` for any other value. */
export function readTarget(definition: unknown): StartTarget {
  if (typeof definition === 'string') {
    return { name: checkName(definition, 'Orchestration name'), version: null, schema: undefined };
  }
  return readDefinition('orchestration', definition, (given) => ({
    name: checkName(given.name, 'Orchestration name'),
    version: checkName(given.version, 'Orchestration version'),
    schema: given.inputSchema,
  }));
}

/** Options of a start that has no caller who could get another instance: of a job, or of a schedule. */
export interface ReadStartOptions {
  readonly id: string | undefined;
  readonly version: string | undefined;
  readonly settings: StartSettings;
}

/** Checks the options of a start that always creates its instance. */
export function readStartOptions(options: unknown, where = 'start()'): ReadStartOptions {
  const given = readFields(options, where, ['id', 'version', ...startSettingNames] as const);
  const { id, version } = given;
  return {
    id: id === undefined ? undefined : checkInstanceId(id),
    version: version === undefined ? undefined : checkName(version, 'Orchestration version'),
    settings: readStartSettings(given),
  };
}

const identityNames = [...admissionNames, 'event', 'onConflict', 'replaceKey'] as const;
const startOptionNames = ['id', 'version', ...startSettingNames, ...identityNames] as const;

/** Checks which instance a start finds instead of creating one. */
function readIdentity(
  options: unknown,
  limitBytes: number,
): Admission & StartAttempt & Pick<StartCall, 'event' | 'onConflict' | 'replaceKey'> {
  const given = readFields(options, 'start()', startOptionNames);
  const { event } = given;
  return {
    ...readAdmission(given),
    ...(event !== undefined && { event: readStartEvent(event, limitBytes) }),
    ...readReplacement(given),
    ...readAttempt(options),
  };
}

/** Checks what a start does with the run that has its id. */
export function readReplacement(
  given: Readonly<
    Partial<Record<'id' | 'onConflict' | 'replaceKey' | 'event' | 'dedupeKey' | 'dedupe', unknown>>
  >,
): { readonly onConflict?: ConflictPlan; readonly replaceKey?: string } {
  const { replaceKey } = given;
  const onConflict = readOnConflict(given);
  const isReplacing = onConflict === 'terminateExisting';
  if (replaceKey !== undefined && !isReplacing) {
    throw new PerdureError(
      'INVALID_OPTION',
      "`replaceKey` is only valid with `onConflict: 'terminateExisting'`.",
    );
  }
  return {
    ...(onConflict !== undefined && { onConflict }),
    ...(isReplacing && {
      replaceKey: replaceKey === undefined ? randomToken() : checkName(replaceKey, 'replaceKey'),
    }),
  };
}

/** Checks and encodes the event of a start. */
export function readStartEvent(event: unknown, limitBytes: number, start = 'start()'): EventCall {
  const where = `\`event\` of ${start}`;
  const given = readFields(event, where, ['token', 'payload', 'key'] as const);
  if (given.token === undefined) throw invalidOption('event.token', undefined, 'an event');
  return readEventCall(given.token, given.payload, { key: given.key }, limitBytes);
}

/** Checks and encodes a start. `newId` returns the id, unless the caller chose one. */
export async function readStart(
  definition: unknown,
  input: unknown,
  options: unknown,
  { limitBytes, newId }: { readonly limitBytes: number; readonly newId: () => string },
): Promise<StartCall> {
  const target = readTarget(definition);
  const { name, schema } = target;
  const encoding = { kind: 'Orchestration', name, schema, limitBytes } as const;
  if (options === undefined) {
    // Without a schema, nothing is awaited.
    const payload =
      schema === undefined ? encodeChecked(input, encoding) : await encodeInput(input, encoding);
    return { id: newId(), hasGeneratedId: true, name, version: target.version, payload };
  }
  const identity = readIdentity(options, limitBytes);
  const { id, version = target.version, settings } = readStartOptions(withoutIdentity(options));
  const payload = await encodeInput(input, encoding);
  const hasGeneratedId = id === undefined;
  return {
    id: id ?? newId(),
    hasGeneratedId,
    name,
    version,
    payload,
    ...settings,
    ...identity,
  };
}

function withoutIdentity(options: unknown): unknown {
  const names: readonly string[] = identityNames;
  return Object.fromEntries(
    Object.entries(options as StartOptions).filter(([name]) => !names.includes(name)),
  );
}

export type EventCall = EncodedEvent;

/** Checks and encodes an event. The schema only validates: the orchestration parses the payload again. */
export function readEventCall(
  event: unknown,
  value: unknown,
  options: unknown,
  limitBytes: number,
): EventCall {
  const { name, schema } = readEvent(event);
  const { key } = readFields(options, 'raiseEvent()', ['key'] as const);
  validateEvent(schema, value, name);
  const what = `The payload of event ${JSON.stringify(name)}`;
  const payload = encodePayload(value, what, limitBytes);
  return { name, payload, ...(key !== undefined && { key: checkEventKey(key) }) };
}

/** Reads an event token or a plain name. */
function readEvent(event: unknown): {
  readonly name: string;
  readonly schema: StandardSchema | undefined;
} {
  if (typeof event === 'string') return { name: checkName(event, 'Event name'), schema: undefined };
  return readDefinition('event', event, ({ name, schema }) => ({
    name: checkName(name, 'Event name'),
    schema,
  }));
}

interface Definitions {
  readonly orchestration: OrchestrationRef;
  readonly event: EventToken;
  readonly task: TaskRef;
  readonly update: UpdateToken;
}

/** Reads a definition from the caller, which may be a proxy that throws on every access. */
export function readDefinition<Kind extends keyof Definitions, Value>(
  kind: Kind,
  value: unknown,
  read: (definition: Definitions[Kind]) => Value,
): Value {
  let cause: unknown;
  try {
    const isObject = typeof value === 'function' || (typeof value === 'object' && value !== null);
    if (isObject && (value as { kind?: unknown }).kind === kind) {
      return read(value as Definitions[Kind]);
    }
  } catch (error) {
    if (error instanceof PerdureError) throw error;
    cause = error;
  }
  const expected = `${kind === 'task' ? 'a' : 'an'} ${kind} or its name`;
  throw new PerdureError(
    'INVALID_INPUT',
    `Expected ${expected}, got ${describe(value)}.`,
    cause === undefined ? undefined : { cause },
  );
}

function describe(value: unknown): string {
  try {
    const kind: unknown = (value as { kind?: unknown } | null | undefined)?.kind;
    if (kind === 'activity' || kind === 'orchestration') return `an ${kind}`;
    if (kind === 'event' || kind === 'update') return `an ${kind}`;
    if (kind === 'task' || kind === 'flow') return `a ${kind}`;
  } catch {
    return 'an object that cannot be read';
  }
  if (value === null || value === undefined) return String(value);
  return typeof value === 'object' ? 'another object' : `a ${typeof value}`;
}

/** Validates and encodes an input. Stores the input, not the output of the schema: the worker parses it again. */
export async function encodeInput(
  input: unknown,
  target: {
    readonly kind: 'Orchestration' | 'Task';
    readonly name: string;
    readonly schema: StandardSchema | undefined;
    readonly limitBytes: number;
  },
): Promise<Payload | null> {
  const { kind, name, schema } = target;
  if (schema !== undefined) await validateInput(schema, input, `${kind} ${JSON.stringify(name)}`);
  return encodeChecked(input, target);
}

/** Encodes an input that has no schema, or was validated. */
export function encodeChecked(
  input: unknown,
  {
    kind,
    name,
    limitBytes,
  }: {
    readonly kind: 'Orchestration' | 'Task';
    readonly name: string;
    readonly limitBytes: number;
  },
): Payload | null {
  return encodePayload(input, `The input of ${kind} ${JSON.stringify(name)}`, limitBytes);
}

/** A flow that a client can start. */
export interface StartableFlow<Input = unknown, Output = unknown> {
  readonly kind: 'flow';
  readonly name: string;
  readonly '~input'?: readonly [Input];
  readonly '~output'?: readonly [Output];
  // A method, so that its parameters are bivariant: a flow of any input is assignable.
  start(client: ClientSurface, input: Input, options?: RunFlowOptions): Promise<Handle>;
}

/** The argument of `runFlow` is not a flow. */
export function notAFlow(): PerdureError {
  return new PerdureError(
    'INVALID_INPUT',
    'Invalid flow in runFlow(): pass a flow built with flow(name) and output().',
  );
}
