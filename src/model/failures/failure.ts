import { builtinKind } from '../values/find-unserializable.ts';
import { decodePayload, describeAsJson, parseJson } from '../values/payload.ts';
import { PerdureError, type ErrorCode } from './errors.ts';

/** An error of user code as plain data, as it is stored. */
export interface Failure {
  readonly name: string;
  readonly message: string;
  readonly stack?: string;
  /** The `code` of the error, if it had one. */
  readonly code?: string;
  /** The `details` of the error, if JSON can represent them. */
  readonly details?: unknown;
  readonly cause?: Failure;
  /** Set if the error must not be retried. */
  readonly nonRetryable?: boolean;
  /** Set if Perdure ended the work, so that no user code threw this. */
  readonly platform?: true;
  /** The number of attempts of an activity, if there was more than one. */
  readonly attempts?: number;
}

const maxTextLength = 32_768;
/** Maximum bytes of `details` as JSON. Larger ones are dropped. */
export const maxDetailBytes = maxTextLength;
const maxCauses = 8;
const maxAggregated = 10;

/** Converts any thrown value to a failure. Never throws, even for hostile objects. */
export function toFailure(thrown: unknown, depth = 0): Failure {
  try {
    return isError(thrown) ? fromError(thrown, depth) : fromValue(thrown);
  } catch {
    return { name: 'Error', message: 'The thrown value could not be inspected.' };
  }
}

// An error of another realm (a vm context, some test runners) is not an instance of this realm's Error.
function isError(thrown: unknown): thrown is Error {
  if (typeof thrown !== 'object' || thrown === null) return false;
  return thrown instanceof Error || builtinKind(thrown) === 'Error';
}

function fromError(error: Error, depth: number): Failure {
  const name = read(error, 'name');
  const message = read(error, 'message');
  const stack = read(error, 'stack');
  const code = read(error, 'code');
  const details = copyAsJson(read(error, 'details') ?? aggregated(error));
  const cause = read(error, 'cause');
  return {
    name: clip(typeof name === 'string' && name !== '' ? name : 'Error'),
    message: clip(typeof message === 'string' ? message : show(message)),
    ...(typeof stack === 'string' && { stack: clip(stack) }),
    ...((typeof code === 'string' || typeof code === 'number') && { code: clip(String(code)) }),
    ...(details !== undefined && { details }),
    ...(cause !== undefined && depth < maxCauses && { cause: toFailure(cause, depth + 1) }),
    ...(read(error, 'nonRetryable') === true && { nonRetryable: true }),
  };
}

function fromValue(thrown: unknown): Failure {
  const details = typeof thrown === 'object' && thrown !== null ? copyAsJson(thrown) : undefined;
  return {
    name: 'NonError',
    message: clip(thrown === undefined ? 'undefined was thrown' : show(thrown)),
    ...(details !== undefined && { details }),
  };
}

/** Reads a property of an error. Returns `undefined` if a getter throws. */
function read(error: Error, key: string): unknown {
  try {
    return (error as unknown as Record<string, unknown>)[key];
  } catch {
    return undefined;
  }
}

/**
 * Copies a value as JSON does; `undefined` if that fails or is too large. Details are for people: a Date becomes text,
 * where a payload would be rejected.
 */
function copyAsJson(value: unknown): unknown {
  return decodePayload(describeAsJson(value, maxTextLength) ?? null);
}

/** The errors of an AggregateError, whose own message does not contain them. */
function aggregated(error: Error): unknown {
  const errors = read(error, 'errors');
  if (!(error instanceof AggregateError) || !Array.isArray(errors)) return undefined;
  return {
    errors: errors.slice(0, maxAggregated).map((inner: unknown) => {
      const { name, message, code } = toFailure(inner, maxCauses);
      return { name, message: message.slice(0, 1_000), ...(code !== undefined && { code }) };
    }),
  };
}

function show(value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return String(value);
  return describeAsJson(value, maxTextLength) ?? `a value of type ${typeof value}`;
}

/** Converts a failure to an `Error` with the recorded name, message, stack, code, details and cause. */
export function toError(failure: Failure): Error {
  const error = new Error(
    failure.message,
    failure.cause === undefined ? undefined : { cause: toError(failure.cause) },
  );
  define(error, 'name', failure.name);
  if (failure.stack !== undefined) define(error, 'stack', failure.stack);
  if (failure.code !== undefined) define(error, 'code', failure.code);
  if (failure.details !== undefined) define(error, 'details', failure.details);
  if (failure.nonRetryable === true) define(error, 'nonRetryable', true);
  return error;
}

/** Whether a decoded value has the required fields of a failure. */
export function isFailure(value: unknown): value is Failure {
  if (typeof value !== 'object' || value === null) return false;
  const { name, message, cause } = value as Partial<Failure>;
  return (
    typeof name === 'string' &&
    typeof message === 'string' &&
    (cause === undefined || isFailure(cause))
  );
}

/** Decodes a stored failure. For damaged text, returns a failure with the code `UNDECODABLE`. */
export function decodeFailure(text: string | null): Failure {
  try {
    const failure = text === null ? undefined : parseJson(text);
    if (isFailure(failure)) return failure;
  } catch {
    // Invalid JSON is treated as damaged, below.
  }
  return platformFailure('UNDECODABLE', 'The stored failure cannot be decoded.');
}

/** Creates a failure of Perdure itself, with one of its own codes. */
export function platformFailure(code: ErrorCode, message: string): Failure {
  return { name: PerdureError.name, message, code, nonRetryable: true, platform: true };
}

/** Whether Perdure ended the work with one of these codes. An error of user code with the same code does not count. */
export function isEndedBy<Code extends ErrorCode>(
  failure: Failure,
  ...codes: readonly Code[]
): failure is Failure & { readonly code: Code } {
  return failure.platform === true && codes.some((code) => code === failure.code);
}

function define(error: Error, key: string, value: unknown): void {
  Object.defineProperty(error, key, {
    value,
    configurable: true,
    writable: true,
    enumerable: false,
  });
}

function clip(text: string): string {
  return text.length <= maxTextLength
    ? text
    : `${text.slice(0, maxTextLength).toWellFormed()}… (cut)`;
}

const maxClasses = 32;

// Class names of errors from another thread, which were rebuilt without their classes.
const rebuilt = new WeakMap<object, readonly string[]>();

/** Returns the class names of a thrown error, from its own class up to the built-in ones. Never throws. */
export function errorClasses(thrown: unknown): readonly string[] {
  if (typeof thrown !== 'object' || thrown === null) return [];
  const known = rebuilt.get(thrown);
  if (known !== undefined) return known;
  const names: string[] = [];
  try {
    let prototype = Object.getPrototypeOf(thrown) as object | null;
    while (prototype !== null && prototype !== Object.prototype && names.length < maxClasses) {
      const name: unknown = (prototype.constructor as { readonly name?: unknown } | undefined)
        ?.name;
      if (typeof name === 'string' && name !== '') names.push(name);
      prototype = Object.getPrototypeOf(prototype) as object | null;
    }
  } catch {
    // A proxy may throw. Keep the names read so far.
  }
  return names;
}

/** Sets the class names of an error that was rebuilt from a failure. */
export function withClasses(error: Error, classes: readonly string[]): Error {
  rebuilt.set(error, classes);
  return error;
}

/** A failure as it is logged. */
export interface LoggedError {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
  readonly cause?: LoggedError;
}

/** Converts a failure for a log line, without `details`, which may contain payloads. */
export function toLoggedError({ name, message, code, stack, cause }: Failure): LoggedError {
  // The message quotes inputs. Another log line names the recorded and the issued command.
  if (code === 'NONDETERMINISM') return { name, message: 'code and history disagree', code };
  return {
    name,
    message,
    ...(code !== undefined && { code }),
    ...(stack !== undefined && { stack }),
    ...(cause !== undefined && { cause: toLoggedError(cause) }),
  };
}
