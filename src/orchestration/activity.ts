import type { ActivityRef, StandardSchema } from '../model/definition.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { readLimits, type LimitOptions, type ResolvedLimits } from '../model/limit-options.ts';
import { checkName } from '../model/values/names.ts';
import type { AbandonedContext, ActivityContext, OnAbandoned } from './activity-context.ts';
import { activityDefaultNames, checkCallOptions, type ActivityDefaults } from './call-options.ts';
import { checkDefinition, checkSchema, readOnAbandoned } from './definition-checks.ts';

/** Options of an activity definition, including the defaults of its calls. */
export interface ActivityDefinitionOptions<Parsed, Output = unknown, Input = Parsed>
  extends ActivityDefaults, LimitOptions {
  /** A Standard Schema that validates the input. The handler receives its output. */
  readonly input?: StandardSchema<Input, Parsed> | undefined;
  /** Disposes of a result that the handler returned after its call was canceled. */
  readonly onAbandoned?: OnAbandoned<Output> | undefined;
}

/** A named function with side effects. A worker runs it at least once. */
export interface ActivityDefinition<Input = unknown, Output = unknown, Parsed = Input>
  extends ActivityRef<Input, Output>, ResolvedLimits {
  readonly defaults: ActivityDefaults;
  /** The location of the handler of an isolated activity. */
  readonly isolated?: { readonly module: string; readonly exportName: string };
  // A method, so that definitions with different input types are assignable to one array type.
  handler(context: ActivityContext, input: Parsed): Output | Promise<Output>;
  onAbandoned?(output: Output, context: AbandonedContext): unknown;
}

const knownOptions = ['input', 'onAbandoned', ...activityDefaultNames, 'concurrency', 'rate'];

/** Defines an activity: a function that may do I/O. Its input and output are stored as JSON. */
export function activity<Parsed = void, Output = unknown, Input = Parsed>(
  name: string,
  handler: (context: ActivityContext, input: Parsed) => Output | Promise<Output>,
  options: ActivityDefinitionOptions<Parsed, NoInfer<Output>, Input> = {},
): ActivityDefinition<Input, Output, Parsed> {
  const what = `activity ${JSON.stringify(checkName(name, 'Activity name'))}`;
  checkDefinition({ what, handler, options, known: knownOptions });
  const { input, onAbandoned, concurrency, rate, ...defaults } = options;
  checkCallOptions(defaults);
  return Object.freeze({
    kind: 'activity',
    name,
    inputSchema: checkSchema(input, what),
    defaults: Object.freeze(defaults),
    ...readLimits(what, { concurrency, rate }),
    ...readOnAbandoned(what, onAbandoned),
    handler,
  });
}

/** The location of an isolated handler. A closure cannot be passed to another thread. */
export interface IsolatedHandler {
  /** The URL of the module: `new URL('./resize.ts', import.meta.url)`. */
  readonly module: URL | string;
  /** The export name of the handler. Default: `'default'`. */
  readonly exportName?: string | undefined;
}

/**
 * Defines an activity whose handler runs in its own worker thread. If the handler ignores its signal, the thread is
 * terminated after the grace.
 */
export function isolatedActivity<Parsed = void, Output = unknown, Input = Parsed>(
  name: string,
  handler: IsolatedHandler,
  options: ActivityDefinitionOptions<Parsed, NoInfer<Output>, Input> = {},
): ActivityDefinition<Input, Output, Parsed> {
  const isolated = locateHandler(handler);
  const runsElsewhere = (): never => {
    throw new Error(
      `The handler of isolated activity ${JSON.stringify(name)} runs in its own thread.`,
    );
  };
  const definition = activity<Parsed, Output, Input>(name, runsElsewhere, options);
  return Object.freeze({ ...definition, isolated });
}

/** Returns the location of a handler as strings, which can be passed to a thread. */
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
    `Invalid \`module\` ${JSON.stringify(module) ?? String(module)} of an isolated handler: must be a file, data or node URL, such as new URL('./handler.ts', import.meta.url).`,
  );
}
