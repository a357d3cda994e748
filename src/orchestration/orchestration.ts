import type {
  EventToken,
  OrchestrationRef,
  StandardSchema,
  UpdateToken,
} from '../model/definition.ts';
import {
  readInstanceConcurrency,
  type InstanceConcurrencyOptions,
  type ResolvedLimits,
} from '../model/limit-options.ts';
import { checkName } from '../model/values/names.ts';
import type { AbandonedContext, OnAbandoned } from './activity-context.ts';
import {
  checkDefinition,
  checkOptions,
  checkSchema,
  readOnAbandoned,
} from './definition-checks.ts';
import type { OrchestrationContext } from './orchestration-context.ts';

/** Options of an orchestration definition. */
export interface OrchestrationDefinitionOptions<Parsed, Output = unknown, Input = Parsed> {
  /** Default: '1'. An execution keeps its version. Several versions can be registered side by side. */
  readonly version?: string | undefined;
  /** A Standard Schema that validates the input. The handler receives its output. */
  readonly input?: StandardSchema<Input, Parsed> | undefined;
  /** Disposes of the result of a job whose caller disappeared. It is retried until it succeeds. */
  readonly onAbandoned?: OnAbandoned<Output> | undefined;
  /** Maximum instances that have begun and not ended, over all workers: `global`, and `perKey` for one `key`. */
  readonly concurrency?: InstanceConcurrencyOptions | undefined;
}

/** A named, versioned, deterministic async function whose progress is durable. */
export interface OrchestrationDefinition<Input = unknown, Output = unknown, Parsed = Input>
  extends OrchestrationRef<Input, Output>, Pick<ResolvedLimits, 'concurrency'> {
  // A method, so that definitions with different input types are assignable to one array type.
  handler(context: OrchestrationContext<Input>, input: Parsed): Output | Promise<Output>;
  onAbandoned?(output: Output, context: AbandonedContext): unknown;
}

const known = ['input', 'version', 'onAbandoned', 'concurrency'];

/** Defines an orchestration: a deterministic async function that awaits only promises of its context. */
export function orchestration<Parsed = void, Output = unknown, Input = Parsed>(
  name: string,
  handler: (context: OrchestrationContext<Input>, input: Parsed) => Output | Promise<Output>,
  options: OrchestrationDefinitionOptions<Parsed, NoInfer<Output>, Input> = {},
): OrchestrationDefinition<Input, Output, Parsed> {
  const what = `orchestration ${JSON.stringify(checkName(name, 'Orchestration name'))}`;
  checkDefinition({ what, handler, options, known });
  return Object.freeze({
    kind: 'orchestration',
    name,
    version: checkName(options.version ?? '1', 'Orchestration version'),
    inputSchema: checkSchema(options.input, what),
    ...readOnAbandoned(what, options.onAbandoned),
    ...readInstanceConcurrency(what, options.concurrency),
    handler,
  });
}

/**
 * Defines an external event: its name and payload type, for `raiseEvent` and `waitFor`. An optional schema validates the
 * payload when it is sent and when it is received. The schema must be synchronous.
 */
export function event<Parsed = undefined, Value = Parsed>(
  name: string,
  options: { readonly schema?: StandardSchema<Value, Parsed> | undefined } = {},
): EventToken<Value, Parsed> {
  const what = `event ${JSON.stringify(checkName(name, 'Event name'))}`;
  checkOptions(what, options, ['schema']);
  return Object.freeze({ kind: 'event', name, schema: checkSchema(options.schema, what) });
}

/**
 * Defines an update: a request to a running instance with a reply, for `client.update` and `ctx.onUpdate`. An optional
 * schema validates the input when it is sent and when it is received. The schema must be synchronous.
 */
export function update<Parsed = undefined, Output = unknown, Input = Parsed>(
  name: string,
  options: { readonly input?: StandardSchema<Input, Parsed> | undefined } = {},
): UpdateToken<Input, Output, Parsed> {
  const what = `update ${JSON.stringify(checkName(name, 'Update name'))}`;
  checkOptions(what, options, ['input']);
  return Object.freeze({ kind: 'update', name, inputSchema: checkSchema(options.input, what) });
}
