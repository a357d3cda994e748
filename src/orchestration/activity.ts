import type { ActivityRef, StandardSchema } from '../model/definition.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { checkName } from '../model/values/names.ts';
import type { AbandonedContext, ActivityContext, OnAbandoned } from './activity-context.ts';
import { callOptionNames, checkCallOptions, type CallOptions } from './call-options.ts';
import { checkDefinition, checkSchema, readOnAbandoned } from './definition-checks.ts';

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

const knownOptions = ['input', 'onAbandoned', ...callOptionNames];

/** Defines an activity: a function that may do I/O. Its input and result are stored as JSON. */
export function activity<Parsed = void, Output = unknown, Input = Parsed>(
  name: string,
  handler: (context: ActivityContext, input: Parsed) => Output | Promise<Output>,
  options: ActivityDefinitionOptions<Parsed, NoInfer<Output>, Input> = {},
): ActivityDefinition<Input, Output, Parsed> {
  const what = `activity '${checkName(name, 'Activity name')}'`;
  checkDefinition({ what, handler, options, known: knownOptions });
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

/** Where the handler of an isolated activity or task is found: closures cannot move to another thread. */
export interface IsolatedHandler {
  /** The module, as a URL: `new URL('./resize.ts', import.meta.url)`. */
  readonly module: URL | string;
  /** The name under which the module exports the handler. Default `'default'`. */
  readonly exportName?: string | undefined;
}

/**
 * Defines an activity that runs in a worker thread of its own. A handler that ignores its signal past the grace
 * period is really stopped: its thread is terminated.
 */
export function isolatedActivity<Parsed = void, Output = unknown, Input = Parsed>(
  name: string,
  handler: IsolatedHandler,
  options: ActivityDefinitionOptions<Parsed, NoInfer<Output>, Input> = {},
): ActivityDefinition<Input, Output, Parsed> {
  const isolated = locateHandler(handler);
  const runsElsewhere = (): never => {
    throw new Error(`Activity '${name}' runs in a thread of its own.`);
  };
  const definition = activity<Parsed, Output, Input>(name, runsElsewhere, options);
  return Object.freeze({ ...definition, isolated });
}

/** Where the handler is found, as text that a thread can be given. */
export function locateHandler({ module, exportName = 'default' }: IsolatedHandler): {
  readonly module: string;
  readonly exportName: string;
} {
  return { module: checkModule(module), exportName };
}

function checkModule(module: unknown): string {
  const href = module instanceof URL ? module.href : module;
  if (typeof href === 'string' && URL.canParse(href) && /^(?:file|data|node):/.test(href))
    return href;
  throw new PerdureError(
    'INVALID_OPTION',
    `The module of an isolated handler must be a file URL: new URL('./handler.ts', import.meta.url).`,
  );
}
