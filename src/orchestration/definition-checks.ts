import type { StandardSchema } from '../model/definition.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { unknownOption } from '../model/option-fields.ts';
import type { OnAbandoned } from './activity-context.ts';

/** Throws `INVALID_OPTION` for a handler that is not a function, and for unknown options. */
export function checkDefinition(definition: {
  readonly what: string;
  readonly handler: unknown;
  readonly options: object;
  readonly known: readonly string[];
}): void {
  const { what, handler, options, known } = definition;
  if (typeof handler !== 'function') {
    throw new PerdureError(
      'INVALID_OPTION',
      `The handler of ${what} must be a function: it is ${handler === null ? 'null' : typeof handler}.`,
    );
  }
  checkOptions(what, options, known);
}

/** Throws `INVALID_OPTION` for an unknown option, and names the closest valid one. */
export function checkOptions(what: string, options: object, known: readonly string[]): void {
  if (typeof options !== 'object' || options === null) {
    throw new PerdureError('INVALID_OPTION', `The options of ${what} must be an object.`);
  }
  const unknown = Object.keys(options).find((key) => !known.includes(key));
  if (unknown !== undefined) throw unknownOption(unknown, what, known);
}

/** Returns the schema. Throws `INVALID_OPTION` if it is not a Standard Schema. */
export function checkSchema<Input, Output>(
  schema: StandardSchema<Input, Output> | undefined,
  what: string,
): StandardSchema<Input, Output> | undefined {
  if (schema === undefined) return undefined;
  const standard: { validate?: unknown } | undefined = (schema as Partial<StandardSchema> | null)?.[
    '~standard'
  ];
  if (typeof standard?.validate === 'function') return schema;
  throw new PerdureError(
    'INVALID_OPTION',
    `The schema of ${what} does not implement Standard Schema. Use zod 3.24 or newer, valibot or arktype.`,
  );
}

/** Returns the handler as a part of a definition. Throws `INVALID_OPTION` if it is not a function. */
export function readOnAbandoned<Output>(
  what: string,
  onAbandoned: OnAbandoned<Output> | undefined,
): { readonly onAbandoned?: OnAbandoned<Output> } {
  if (onAbandoned === undefined) return {};
  if (typeof onAbandoned === 'function') return { onAbandoned };
  throw new PerdureError(
    'INVALID_OPTION',
    `\`onAbandoned\` of ${what} must be a function: it is ${onAbandoned === null ? 'null' : typeof onAbandoned}.`,
  );
}
