import type { EventToken, OrchestrationRef, StandardSchema } from '../model/definition.ts';
import { checkName } from '../model/values/names.ts';
import type { AbandonedContext, OnAbandoned } from './activity-context.ts';
import {
  checkDefinition,
  checkOptions,
  checkSchema,
  readOnAbandoned,
} from './definition-checks.ts';
import type { OrchestrationContext } from './orchestration-context.ts';

/** How an orchestration is defined: its version and its schema. */
export interface OrchestrationDefinitionOptions<Parsed, Output = unknown, Input = Parsed> {
  /** Default '1'. A run stays on the version it started with; several versions may be registered together. */
  readonly version?: string | undefined;
  /** A Standard Schema that every input must satisfy. Callers pass what it takes, the handler gets what it returns. */
  readonly input?: StandardSchema<Input, Parsed> | undefined;
  /** Disposes of the result of a job that completed although its caller had gone; tried until it succeeds. */
  readonly onAbandoned?: OnAbandoned<Output> | undefined;
}

/** A named, versioned, deterministic async function whose progress is durable. */
export interface OrchestrationDefinition<
  Input = unknown,
  Output = unknown,
  Parsed = Input,
> extends OrchestrationRef<Input, Output> {
  // A method, so that definitions of all inputs fit into one list.
  handler(context: OrchestrationContext<Input>, input: Parsed): Output | Promise<Output>;
  onAbandoned?(output: Output, context: AbandonedContext): unknown;
}

const known = ['input', 'version', 'onAbandoned'];

/** Defines an orchestration: code that may await only what its context gives it, and survives crashes. */
export function orchestration<Parsed = void, Output = unknown, Input = Parsed>(
  name: string,
  handler: (context: OrchestrationContext<Input>, input: Parsed) => Output | Promise<Output>,
  options: OrchestrationDefinitionOptions<Parsed, NoInfer<Output>, Input> = {},
): OrchestrationDefinition<Input, Output, Parsed> {
  const what = `orchestration '${checkName(name, 'Orchestration name')}'`;
  checkDefinition({ what, handler, options, known });
  return Object.freeze({
    kind: 'orchestration',
    name,
    version: checkName(options.version ?? '1', 'Orchestration version'),
    inputSchema: checkSchema(options.input, what),
    ...readOnAbandoned(what, options.onAbandoned),
    handler,
  });
}

/**
 * Names an external event and the type of its payload, for `raiseEvent` and `waitFor`. A schema checks the payload
 * where it is raised and where it is received; it must be synchronous.
 */
export function event<Parsed = undefined, Value = Parsed>(
  name: string,
  options: { readonly schema?: StandardSchema<Value, Parsed> | undefined } = {},
): EventToken<Value, Parsed> {
  const what = `event '${checkName(name, 'Event name')}'`;
  checkOptions(what, options, ['schema']);
  return Object.freeze({ kind: 'event', name, schema: checkSchema(options.schema, what) });
}
