import type { ActivityRef, StandardSchema } from '../model/definition.ts';
import { toMs, type Duration } from '../model/duration.ts';
import { checkName } from '../model/names.ts';
import { resolveRetryPolicy, type RetryPolicy } from '../model/retry-policy.ts';
import type { ActivityContext } from './activity-context.ts';
import { checkDefinition, checkSchema } from './definition-checks.ts';

/** How an activity is tried: defaults of its definition, or the choice of one call. */
export interface CallOptions {
  /** Absent: one attempt. */
  readonly retry?: RetryPolicy | undefined;
  /** How long one attempt may take. */
  readonly attemptTimeout?: Duration | undefined;
  /** How long all attempts may take together, waits included. */
  readonly timeout?: Duration | undefined;
}

/** How an activity is defined: its schema, and the defaults of its calls. */
export interface ActivityDefinitionOptions<Input> extends CallOptions {
  /** A Standard Schema that every input must satisfy. */
  readonly input?: StandardSchema<Input> | undefined;
}

/** A named function with side effects, run by a worker, at least once. */
export interface ActivityDefinition<Input = unknown, Output = unknown> extends ActivityRef<
  Input,
  Output
> {
  readonly defaults: CallOptions;
  // A method, so that definitions of all inputs fit into one list.
  handler(context: ActivityContext, input: Input): Output | Promise<Output>;
}

const known = ['input', 'retry', 'attemptTimeout', 'timeout'];

/** Defines an activity: a function that may do I/O. Its input and result are stored as JSON. */
export function activity<Input = void, Output = unknown>(
  name: string,
  handler: (context: ActivityContext, input: Input) => Output | Promise<Output>,
  options: ActivityDefinitionOptions<Input> = {},
): ActivityDefinition<Input, Output> {
  const what = `activity '${checkName(name, 'Activity name')}'`;
  checkDefinition({ what, handler, options, known });
  const { input, ...defaults } = options;
  checkCallOptions(defaults);
  return Object.freeze({
    kind: 'activity',
    name,
    inputSchema: checkSchema(input, what),
    defaults: Object.freeze(defaults),
    handler,
  });
}

/** Throws for a retry policy or a timeout that makes no sense. */
function checkCallOptions({ retry, attemptTimeout, timeout }: CallOptions): void {
  if (retry !== undefined) resolveRetryPolicy(retry);
  if (attemptTimeout !== undefined) toMs(attemptTimeout, 'attemptTimeout');
  if (timeout !== undefined) toMs(timeout, 'timeout');
}
