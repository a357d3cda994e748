import type { EventToken, OrchestrationRef, StandardSchema } from '../../model/definition.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import { checkInstanceId, checkName } from '../../model/values/names.ts';
import { readFields } from '../../model/option-fields.ts';

/** What a start needs to know of its orchestration. */
export interface StartTarget {
  readonly name: string;
  /** `null`: the worker that takes the first turn picks its newest. */
  readonly version: string | null;
  readonly schema: StandardSchema | undefined;
}

/** Reads a definition or a plain name; whatever else it is given is refused. */
export function readTarget(definition: unknown): StartTarget {
  if (typeof definition === 'string') {
    return { name: checkName(definition, 'Orchestration name'), version: null, schema: undefined };
  }
  return guarded('start takes an orchestration or its name', definition, () => {
    if (!isOfKind(definition, 'orchestration')) return undefined;
    const { name, version, inputSchema } = definition as OrchestrationRef;
    return {
      name: checkName(name, 'Orchestration name'),
      version: checkName(version, 'Orchestration version'),
      schema: inputSchema,
    };
  });
}

/** Reads the options of a start. */
export function readStartOptions(options: unknown): {
  readonly id: string | undefined;
  readonly version: string | undefined;
} {
  const { id, version } = readFields(options, 'options', ['id', 'version'] as const);
  return {
    id: id === undefined ? undefined : checkInstanceId(id),
    version: version === undefined ? undefined : checkName(version, 'Orchestration version'),
  };
}

/** Reads an event token or a plain name. */
export function readEvent(event: unknown): {
  readonly name: string;
  readonly schema: StandardSchema | undefined;
} {
  if (typeof event === 'string') {
    return { name: checkName(event, 'Event name'), schema: undefined };
  }
  return guarded('raiseEvent takes an event or its name', event, () => {
    if (!isOfKind(event, 'event')) return undefined;
    const { name, schema } = event as EventToken;
    return { name: checkName(name, 'Event name'), schema };
  });
}

function isOfKind(value: unknown, kind: string): boolean {
  const holdsProperties =
    typeof value === 'function' || (typeof value === 'object' && value !== null);
  return holdsProperties && (value as { kind?: unknown }).kind === kind;
}

/** Runs a reader over what a caller passed, which may be a proxy that throws at every question. */
function guarded<Value>(expected: string, value: unknown, read: () => Value | undefined): Value {
  let cause: unknown;
  try {
    const result = read();
    if (result !== undefined) return result;
  } catch (error) {
    if (error instanceof PerdureError) throw error;
    cause = error;
  }
  throw new PerdureError(
    'INVALID_INPUT',
    `${expected}; it was given ${describe(value)}.`,
    cause === undefined ? undefined : { cause },
  );
}

function describe(value: unknown): string {
  try {
    const kind: unknown = (value as { kind?: unknown } | null | undefined)?.kind;
    if (kind === 'activity' || kind === 'orchestration' || kind === 'event') return `an ${kind}`;
  } catch {
    return 'an object that cannot be read';
  }
  if (value === null || value === undefined) return String(value);
  return typeof value === 'object' ? 'another object' : `a ${typeof value}`;
}
