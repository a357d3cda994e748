import { PerdureError } from '../model/failures/errors.ts';
import { activity, type ActivityDefinition, type ActivityDefinitionOptions } from './activity.ts';

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
