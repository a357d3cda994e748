import type { StandardSchema, UpdateToken } from '../../model/definition.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import { toFailure, type Failure } from '../../model/failures/failure.ts';
import { readFields } from '../../model/option-fields.ts';
import type { TraceContext } from '../../model/trace-context.ts';
import { toMs, type Duration } from '../../model/values/duration.ts';
import { checkInstanceId, checkName, checkUpdateKey } from '../../model/values/names.ts';
import { encodePayload, type Payload } from '../../model/values/payload.ts';
import { randomToken } from '../../model/values/random-id.ts';
import { validateNamed } from '../../model/values/validate-input.ts';
import { readDefinition } from '../starting/start-request.ts';

/** Maximum length of the message of `rejectAwakeable`, in UTF-16 code units. Longer ones are cut. */
export const maxReason = 10_000;
/** Maximum length of the name and of the code of the error of `rejectAwakeable`. Longer ones are cut. */
export const maxErrorName = 1_000;

/** Options of `client.update`. */
export interface UpdateOptions {
  /** Rejects with `TIMEOUT` after this time. The update is not withdrawn. Default: no timeout. */
  readonly timeout?: Duration | undefined;
  /**
   * Identifies the update within its instance: a call with the same key waits for the same reply. At most 1,000 bytes.
   * Default: a random one for each call.
   */
  readonly key?: string | undefined;
}

/** The arguments of `update` after the update. The input is optional if it may be `undefined`. */
export type UpdateArguments<Input> = undefined extends Input
  ? [input?: NoInfer<Input>, options?: UpdateOptions]
  : [input: NoInfer<Input>, options?: UpdateOptions];

/** An update, checked and encoded. */
export interface UpdateCall {
  readonly id: string;
  readonly name: string;
  readonly payload: Payload | null;
  readonly key: string;
  /** The context of the caller's span. */
  readonly trace?: TraceContext | undefined;
}

/** An answer to an awakeable, checked and encoded. */
export interface AnswerCall {
  readonly token: string;
  /** Identifies the call, so that a repeat of it is no second answer. */
  readonly key: string;
  readonly answer:
    | { readonly kind: 'resolve'; readonly payload: Payload | null }
    | { readonly kind: 'reject'; readonly failure: Failure };
}

/** The part of a client's backend for updates and awakeables. Every call may be repeated. */
export interface UpdateBackend {
  /** Resolves with the reply. Rejects with the error of the update, or with `TIMEOUT`. */
  update(call: UpdateCall, timeoutMs: number | undefined): Promise<unknown>;
  /** Rejects with `AWAKEABLE_NOT_FOUND` or `AWAKEABLE_ALREADY_ANSWERED`. */
  answerAwakeable(call: AnswerCall): Promise<void>;
}

/** Checks and encodes an update. The schema only validates: the orchestration parses the input again. */
export function readUpdate(
  given: {
    readonly id: unknown;
    readonly update: unknown;
    readonly input: unknown;
    readonly options: unknown;
  },
  limitBytes: number,
): { readonly call: UpdateCall; readonly timeoutMs: number | undefined } {
  const id = checkInstanceId(given.id);
  const { name, schema } = readToken(given.update);
  const { timeout, key } = readFields(given.options, 'update()', ['timeout', 'key'] as const);
  const what = `update ${JSON.stringify(name)}`;
  validateNamed(schema, given.input, `The input of ${what}`);
  const payload = encodePayload(given.input, `The input of ${what}`, limitBytes);
  return {
    call: { id, name, payload, key: key === undefined ? randomToken() : checkUpdateKey(key) },
    timeoutMs: timeout === undefined ? undefined : toMs(timeout as Duration, 'timeout'),
  };
}

/** Checks and encodes the answer of `resolveAwakeable`. */
export function readResolution(token: unknown, value: unknown, limitBytes: number): AnswerCall {
  const payload = encodePayload(value, 'The value of resolveAwakeable()', limitBytes);
  return { token: readSecret(token), key: randomToken(), answer: { kind: 'resolve', payload } };
}

/** Checks and encodes the answer of `rejectAwakeable`: a text or an error. */
export function readRejection(token: unknown, reason: unknown): AnswerCall {
  const failure = reason === undefined ? { name: 'Error', message: 'rejected' } : asFailure(reason);
  return { token: readSecret(token), key: randomToken(), answer: { kind: 'reject', failure } };
}

/** Without the stack and the causes: their stacks name files of the caller. */
function asFailure(reason: unknown): Failure {
  if (typeof reason === 'string') return { name: 'Error', message: cut(reason, maxReason) };
  const { name, message, code, details } = toFailure(reason);
  return {
    name: cut(name, maxErrorName),
    message: cut(message, maxReason),
    ...(code !== undefined && { code: cut(code, maxErrorName) }),
    ...(details !== undefined && { details }),
  };
}

function cut(text: string, length: number): string {
  return text.length <= length ? text : text.slice(0, length).toWellFormed();
}

/** Never quotes the token. */
function readSecret(token: unknown): string {
  if (typeof token === 'string' && token !== '') return token;
  throw new PerdureError(
    'INVALID_INPUT',
    'Invalid token of an awakeable: must be a non-empty string.',
  );
}

function readToken(update: unknown): {
  readonly name: string;
  readonly schema: StandardSchema | undefined;
} {
  if (typeof update === 'string') {
    return { name: checkName(update, 'Update name'), schema: undefined };
  }
  return readDefinition('update', update, ({ name, inputSchema }: UpdateToken) => ({
    name: checkName(name, 'Update name'),
    schema: inputSchema,
  }));
}
