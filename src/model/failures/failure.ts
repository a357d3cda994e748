import { builtinKind } from '../values/find-unserializable.ts';
import { decodePayload, describeAsJson, parseJson } from '../values/payload.ts';
import { PerdureError, type ErrorCode } from './errors.ts';

/** What user code failed with, as plain data that any store can keep. */
export interface Failure {
  readonly name: string;
  readonly message: string;
  readonly stack?: string;
  /** The `code` of the error, when it had one. */
  readonly code?: string;
  /** The `details` of the error, when it had some that JSON can carry. */
  readonly details?: unknown;
  readonly cause?: Failure;
  /** Set when the retry policy must not try again. */
  readonly nonRetryable?: boolean;
  /** Set when Perdure itself ended the work, so that no code threw this. */
  readonly platform?: true;
  /** How many attempts an activity made, when there was more than one. */
  readonly attempts?: number;
}

const maxTextLength = 32_768;
const maxCauses = 8;
const maxAggregated = 10;

/** Turns whatever was thrown (also `undefined`, a string, a hostile object) into a failure; never throws. */
export function toFailure(thrown: unknown, depth = 0): Failure {
  try {
    return isError(thrown) ? fromError(thrown, depth) : fromValue(thrown);
  } catch {
    return { name: 'Error', message: 'Something was thrown that could not be inspected.' };
  }
}

// An error from another realm (a vm context, some test runners) is no instance of this realm's Error.
function isError(thrown: unknown): thrown is Error {
  if (typeof thrown !== 'object' || thrown === null) return false;
  return thrown instanceof Error || builtinKind(thrown) === 'Error';
}

function fromError(error: Error, depth: number): Failure {
  const name = read(error, 'name');
  const message = read(error, 'message');
  const stack = read(error, 'stack');
  const code = read(error, 'code');
  const details = carriable(read(error, 'details') ?? aggregated(error));
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
  const details = typeof thrown === 'object' && thrown !== null ? carriable(thrown) : undefined;
  return {
    name: 'NonError',
    message: clip(thrown === undefined ? 'undefined was thrown' : show(thrown)),
    ...(details !== undefined && { details }),
  };
}

/** One property of a foreign error: a getter that throws costs only itself. */
function read(error: Error, key: string): unknown {
  try {
    return (error as unknown as Record<string, unknown>)[key];
  } catch {
    return undefined;
  }
}

/**
 * A copy of a value as JSON writes it, or `undefined` when it cannot or is too large. Details are for people who look
 * for the cause: a Date in them arrives as text, where a payload would be refused.
 */
function carriable(value: unknown): unknown {
  return decodePayload(describeAsJson(value, maxTextLength) ?? null);
}

/** Why each part of an AggregateError failed; its own message only says that all did. */
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

/** Rebuilds an error from a failure: a plain `Error` with the recorded name, message, stack, code, details and cause. */
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

/** Says whether a decoded value has what every failure has. */
export function isFailure(value: unknown): value is Failure {
  if (typeof value !== 'object' || value === null) return false;
  const { name, message, cause } = value as Partial<Failure>;
  return (
    typeof name === 'string' &&
    typeof message === 'string' &&
    (cause === undefined || isFailure(cause))
  );
}

/** Reads a failure that a store kept as JSON text; damaged text becomes a failure that says so. */
export function decodeFailure(text: string | null): Failure {
  try {
    const failure = text === null ? undefined : parseJson(text);
    if (isFailure(failure)) return failure;
  } catch {
    // What is not JSON is as damaged as JSON that is no failure.
  }
  return platformFailure('UNDECODABLE', 'It failed, but the record of why cannot be decoded.');
}

/** A failure that Perdure itself states, with one of its own codes. */
export function platformFailure(code: ErrorCode, message: string): Failure {
  return { name: PerdureError.name, message, code, nonRetryable: true, platform: true };
}

/** Whether Perdure itself ended the work with this code; an error of user code with the same code does not count. */
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

// Errors that were rebuilt from another thread, where only the names of their classes came along.
const rebuilt = new WeakMap<object, readonly string[]>();

/** The names of the classes of a thrown error, from its own class up to the built-in ones; never throws. */
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
    // A proxy may refuse to show its prototype; what was read before counts.
  }
  return names;
}

/** Gives an error that was rebuilt from a failure the classes that the original had. */
export function withClasses(error: Error, classes: readonly string[]): Error {
  rebuilt.set(error, classes);
  return error;
}

/** What a log line shows of a failure. */
export interface LoggedError {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
  readonly cause?: LoggedError;
}

/** The part of a failure that belongs in a log: without `details`, which may hold payloads of user code. */
export function toLoggedError({ name, message, code, stack, cause }: Failure): LoggedError {
  // The message of a disagreement quotes inputs; its own log line names the recorded and the issued command.
  if (code === 'NONDETERMINISM') return { name, message: 'code and history disagree', code };
  return {
    name,
    message,
    ...(code !== undefined && { code }),
    ...(stack !== undefined && { stack }),
    ...(cause !== undefined && { cause: toLoggedError(cause) }),
  };
}
