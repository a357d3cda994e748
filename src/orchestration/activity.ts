import type { ActivityRef, StandardSchema } from '../model/definition.ts';
import { checkName } from '../model/values/names.ts';
import { readOnAbandoned, type AbandonedContext, type OnAbandoned } from './abandoned-context.ts';
import type { ActivityContext } from './activity-context.ts';
import { callOptionNames, checkCallOptions, type CallOptions } from './call-options.ts';
import { checkDefinition, checkSchema } from './definition-checks.ts';

/** How an activity is defined: its schema, and the defaults of its calls. */
export interface ActivityDefinitionOptions<
  Parsed,
  Output = unknown,
  Input = Parsed,
> extends CallOptions {
  /** A Standard Schema that every input must satisfy. Callers pass what it takes, the handler gets what it returns. */
  readonly input?: StandardSchema<Input, Parsed> | undefined;
  /** Disposes of what the handler returned after it was asked to stop, when nobody waits for it any more. */
  readonly onAbandoned?: OnAbandoned<Output> | undefined;
}

/** A named function with side effects, run by a worker, at least once. */
export interface ActivityDefinition<
  Input = unknown,
  Output = unknown,
  Parsed = Input,
> extends ActivityRef<Input, Output> {
  readonly defaults: CallOptions;
  /** Where its handler is found, when it runs in a thread of its own. */
  readonly isolated?: { readonly module: string; readonly exportName: string };
  // A method, so that definitions of all inputs fit into one list.
  handler(context: ActivityContext, input: Parsed): Output | Promise<Output>;
  onAbandoned?(output: Output, context: AbandonedContext): unknown;
}

const known = ['input', 'onAbandoned', ...callOptionNames];

/** Defines an activity: a function that may do I/O. Its input and result are stored as JSON. */
export function activity<Parsed = void, Output = unknown, Input = Parsed>(
  name: string,
  handler: (context: ActivityContext, input: Parsed) => Output | Promise<Output>,
  options: ActivityDefinitionOptions<Parsed, NoInfer<Output>, Input> = {},
): ActivityDefinition<Input, Output, Parsed> {
  const what = `activity '${checkName(name, 'Activity name')}'`;
  checkDefinition({ what, handler, options, known });
  const { input, onAbandoned, ...defaults } = options;
  checkCallOptions(defaults);
  return Object.freeze({
    kind: 'activity',
    name,
    inputSchema: checkSchema(input, what),
    defaults: Object.freeze(defaults),
    ...readOnAbandoned(what, onAbandoned),
    handler,
  });
}
