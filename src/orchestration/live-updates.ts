import { AsyncLocalStorage } from 'node:async_hooks';
import type { StandardSchema, UpdateToken } from '../model/definition.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { createAwakeableToken } from '../model/values/awakeable-token.ts';
import { toMs } from '../model/values/duration.ts';
import { decodePayload, type Payload } from '../model/values/payload.ts';
import { validateNamed } from '../model/values/validate-input.ts';
import type { DurablePromise } from '../replay/durable-promise.ts';
import type { LiveCode } from '../replay/live-code.ts';
import { withDeadline } from './combinators.ts';
import { checkOptions, checkSchema } from './definition-checks.ts';
import type { Awakeable, AwakeableOptions, UpdateHandlers } from './update-context.ts';

/** Implements `ctx.onUpdate`. */
export function registerUpdate<Input, Output>(
  code: LiveCode,
  name: string,
  update: UpdateToken | string,
  handlers: UpdateHandlers<Input, Output>,
): void {
  const what = `ctx.onUpdate(${JSON.stringify(name)})`;
  checkOptions(what, handlers, ['validate', 'handle']);
  const { validate, handle } = handlers;
  for (const [field, given] of Object.entries({ handle, ...(validate && { validate }) })) {
    if (typeof given !== 'function') {
      throw new PerdureError(
        'INVALID_INPUT',
        `\`${field}\` in ${what} must be a function: it is ${typeof given}.`,
      );
    }
  }
  code.enter('onUpdate', name);
  const schema = typeof update === 'string' ? undefined : update.inputSchema;
  code.updates.register(name, {
    parse: (input) => validateNamed(schema, input, `Update ${JSON.stringify(name)}`),
    validate: validate as ((input: unknown) => unknown) | undefined,
    handle: handle as (input: unknown) => unknown,
  });
}

/** Implements `ctx.awakeable`. */
export function createAwakeable<T>(code: LiveCode, options: AwakeableOptions<T>): Awakeable<T> {
  checkOptions('ctx.awakeable()', options, ['schema', 'timeout']);
  const { timeout } = options;
  const schema = checkSchema(options.schema, 'ctx.awakeable()');
  const timeoutMs = timeout === undefined ? undefined : toMs(timeout, 'timeout');
  const payload = tokenOf(code);
  const token = decodePayload(payload) as string;
  const promise = code.commands.createAwakeable(payload, parserOf(schema)) as DurablePromise<T>;
  if (timeoutMs === undefined) return { token, promise };
  const deadline = withDeadline({
    operation: promise,
    timer: code.commands.startTimer(code.nowMs + timeoutMs),
    // The history may record this message, and replay compares it: do not change its text.
    message: `The awakeable was not answered within ${timeoutMs} ms, its timeout.`,
  });
  return { token, promise: deadline };
}

/** Returns the recorded token during replay, and a new one otherwise. */
function tokenOf(code: LiveCode): Payload {
  const recorded = code.recordedNext;
  const payload = recorded?.kind === 'awakeableCreated' ? recorded.payload : null;
  return payload ?? JSON.stringify(createAwakeableToken());
}

function parserOf(schema: StandardSchema | undefined): ((value: unknown) => unknown) | undefined {
  if (schema === undefined) return undefined;
  return AsyncLocalStorage.bind((value: unknown) =>
    validateNamed(schema, value, 'The answer of the awakeable'),
  );
}
