import type { StandardSchema } from '../model/definition.ts';
import { PerdureError } from '../model/failures/errors.ts';
import type { OnAbandoned } from './activity-context.ts';

/** Refuses a handler that is not a function, and options that no definition has. */
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
      `The handler of ${what} is ${handler === null ? 'null' : `of type ${typeof handler}`}. Pass a function.`,
    );
  }
  checkOptions(what, options, known);
}

/** Refuses options that do not exist: a misspelt one must not be ignored. */
export function checkOptions(what: string, options: object, known: readonly string[]): void {
  if (typeof options !== 'object' || options === null) {
    throw new PerdureError('INVALID_OPTION', `The options of ${what} must be an object.`);
  }
  const unknown = Object.keys(options).find((key) => !known.includes(key));
  if (unknown === undefined) return;
  throw new PerdureError(
    'INVALID_OPTION',
    `${what} has no option '${unknown}'. Known options: ${known.join(', ')}.`,
  );
}

/** Returns the schema if it is one, throws otherwise. */
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
    `The schema of ${what} does not have the Standard Schema interface. Use zod 3.24 or newer, valibot, arktype, or anything with '~standard'.`,
  );
}

/** Returns the handler as a part of a definition; refuses what is no function. */
export function readOnAbandoned<Output>(
  what: string,
  onAbandoned: OnAbandoned<Output> | undefined,
): { readonly onAbandoned?: OnAbandoned<Output> } {
  if (onAbandoned === undefined) return {};
  if (typeof onAbandoned === 'function') return { onAbandoned };
  throw new PerdureError(
    'INVALID_OPTION',
    `onAbandoned of ${what} is no function. Pass a function.`,
  );
}
