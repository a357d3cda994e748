import type {
  EventToken,
  OrchestrationRef,
  StandardSchema,
  TaskRef,
  UpdateToken,
} from '../../model/definition.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import { readFields } from '../../model/option-fields.ts';
import { checkInstanceId, checkName } from '../../model/values/names.ts';
import { encodePayload, type Payload } from '../../model/values/payload.ts';
import { checkTags, type Tags } from '../../model/values/tags.ts';
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
  ? [payload?: NoInfer<Value>]
  : [payload: NoInfer<Value>];

/** Options of a start. */
export interface StartOptions {
  /** The id of the instance; it makes the start idempotent. Default: generated. */
  readonly id?: string | undefined;
  /** The version to run. Default: the version of the definition; for a plain name, the newest version of a worker. */
  readonly version?: string | undefined;
  /** Tags, by which lists and bulk operations filter: at most 16, names of 64 bytes, values of 256 bytes. */
  readonly tags?: Tags | undefined;
}

/** Options of a run of a flow. */
export interface RunFlowOptions extends StartOptions {
  /** Priority of the steps that set none: 0 to 100, higher first. Default 0. */
  readonly priority?: number | undefined;
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

/** Checks the options of a start. */
export function readStartOptions(
  options: unknown,
  where = 'start()',
): {
  readonly id: string | undefined;
  readonly version: string | undefined;
  readonly tags: Tags | undefined;
} {
  const { id, version, tags } = readFields(options, where, ['id', 'version', 'tags'] as const);
  return {
    id: id === undefined ? undefined : checkInstanceId(id),
    version: version === undefined ? undefined : checkName(version, 'Orchestration version'),
    tags: checkTags(tags),
  };
}

/** Checks and encodes a start; its id is `undefined` unless the caller chose one. */
export async function readStart(
  definition: unknown,
  input: unknown,
  options: unknown,
  limitBytes: number,
): Promise<Omit<StartCall, 'id'> & { readonly id: string | undefined }> {
  const { name, schema, ...target } = readTarget(definition);
  const { id, version = target.version, tags } = readStartOptions(options);
  const payload = await encodeInput(input, { kind: 'Orchestration', name, schema, limitBytes });
  return { id, name, version, payload, tags };
}

/** Checks and encodes an event. The schema only validates: the orchestration parses the payload again. */
export function readEventCall(
  event: unknown,
  value: unknown,
  limitBytes: number,
): { readonly name: string; readonly payload: Payload | null } {
  const { name, schema } = readEvent(event);
  validateEvent(schema, value, name);
  const what = `The payload of event ${JSON.stringify(name)}`;
  return { name, payload: encodePayload(value, what, limitBytes) };
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
  const { kind, name, schema, limitBytes } = target;
  const what = `${kind} ${JSON.stringify(name)}`;
  if (schema !== undefined) await validateInput(schema, input, what);
  return encodePayload(input, `The input of ${what}`, limitBytes);
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
