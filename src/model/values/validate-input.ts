import type { StandardSchema } from '../definition.ts';
import { PerdureError } from '../failures/errors.ts';

const maxShown = 10;

/** Returns the value after the schema parsed it. Throws `INVALID_INPUT` with the issues and their paths. */
export async function validateInput(
  schema: StandardSchema | undefined,
  value: unknown,
  what: string,
): Promise<unknown> {
  if (schema === undefined) return value;
  const result = await validate(schema, value, what);
  if (result.issues === undefined) return result.value;
  const problems = result.issues.slice(0, maxShown).map(describe).join('; ');
  throw new PerdureError('INVALID_INPUT', `${what} got an invalid input: ${problems}.`);
}

/**
 * Returns the payload of an event after its schema parsed it. Throws `INVALID_INPUT` with the issues and their paths.
 * Synchronous: a wait in an orchestration must settle at the same point in every replay.
 */
export function validateEvent(
  schema: StandardSchema | undefined,
  value: unknown,
  name: string,
): unknown {
  if (schema === undefined) return value;
  const what = `Event ${JSON.stringify(name)}`;
  const result = validateNow(schema, value, what);
  if (result.issues === undefined) return result.value;
  const problems = result.issues.slice(0, maxShown).map(describe).join('; ');
  throw new PerdureError('INVALID_INPUT', `${what} has an invalid payload: ${problems}.`);
}

/** Returns a value after its schema parsed it, synchronously. Throws `INVALID_INPUT` with the issues and their paths. */
export function validateNamed(
  schema: StandardSchema | undefined,
  value: unknown,
  what: string,
): unknown {
  if (schema === undefined) return value;
  const result = validateNow(schema, value, what);
  if (result.issues === undefined) return result.value;
  const problems = result.issues.slice(0, maxShown).map(describe).join('; ');
  throw new PerdureError('INVALID_INPUT', `${what} has an invalid value: ${problems}.`);
}

function validateNow(schema: StandardSchema, value: unknown, what: string): Result {
  let result: Result | Promise<Result>;
  try {
    result = schema['~standard'].validate(value);
  } catch (cause) {
    throw threw(what, cause);
  }
  if (!isPromise(result)) return result;
  // The result is not used, so ignore a rejection.
  void result.then(undefined, () => undefined);
  throw new PerdureError(
    'INVALID_OPTION',
    `${what} has an asynchronous schema. Use a synchronous schema, and validate the rest in an activity.`,
  );
}

function isPromise(result: Result | Promise<Result>): result is Promise<Result> {
  return typeof (result as Partial<Promise<Result>>).then === 'function';
}

type Result = Awaited<ReturnType<StandardSchema['~standard']['validate']>>;
type Issue = NonNullable<Result['issues']>[number];

async function validate(schema: StandardSchema, value: unknown, what: string): Promise<Result> {
  try {
    return await schema['~standard'].validate(value);
  } catch (cause) {
    throw threw(what, cause);
  }
}

function threw(what: string, cause: unknown): PerdureError {
  return new PerdureError(
    'INVALID_INPUT',
    `${what} has a schema that threw an error (see cause). Use a Standard Schema, such as one of zod, valibot or arktype.`,
    { cause },
  );
}

function describe(issue: Issue): string {
  const path = (issue.path ?? []).reduce<string>((shown, segment) => {
    const key = typeof segment === 'object' ? segment.key : segment;
    if (typeof key === 'number') return `${shown}[${key}]`;
    return shown === '' ? String(key) : `${shown}.${String(key)}`;
  }, '');
  return path === '' ? issue.message : `${path}: ${issue.message}`;
}
