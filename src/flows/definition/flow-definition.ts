import {
  flowVersion,
  isPerdureError,
  orchestration,
  type ActivityDefinition,
  type Client,
  type Handle,
  type OnAbandoned,
  type OrchestrationDefinition,
  type OrchestrationDefinitionOptions,
  type RunFlowOptions,
  type StandardSchema,
  type StartOptions,
} from '../../index.ts';
import { interpret } from '../interpreter/interpret.ts';
import { isSameJson } from './condition.ts';
import { invalidFlow, quote } from './flow-errors.ts';
import type { FlowGraph, RunInput } from './graph.ts';
import { readRunInput } from './run-format.ts';

/** A flow definition. Pass it to workers to run it, and to `client.runFlow` to start it. */
export interface FlowDefinition<Input = unknown, Output = unknown> {
  readonly kind: 'flow';
  readonly name: string;
  /** The steps as plain data. Each run stores a copy, which later definitions do not change. */
  readonly graph: FlowGraph;
  /** The orchestration that interprets the graph. */
  readonly orchestration: OrchestrationDefinition<RunInput>;
  /** The activities that run the handlers of the steps. */
  readonly activities: readonly ActivityDefinition[];
  readonly '~input'?: readonly [Input];
  readonly '~output'?: readonly [Output];
  /** Starts a run. Called by `client.runFlow`. */
  start(client: Client, input: Input, options?: RunFlowOptions): Promise<Handle>;
}

/** Options of a flow. */
export type FlowOptions = Pick<OrchestrationDefinitionOptions<unknown>, 'concurrency'>;

/** Returns valid options of a flow. Throws `INVALID_FLOW` for unknown ones; `output()` checks their values. */
export function checkFlowOptions(name: string, options: FlowOptions): FlowOptions {
  if (typeof options !== 'object' || options === null) {
    throw invalidFlow(`The options of flow ${quote(name)} must be an object.`);
  }
  const unknown = Object.keys(options).find((key) => key !== 'concurrency');
  if (unknown === undefined) return { ...options };
  throw invalidFlow(
    `Unknown option ${quote(unknown)} of flow ${quote(name)}. Valid options: concurrency.`,
  );
}

/** Creates a flow definition from its graph and its handlers. */
export function defineFlow(parts: {
  readonly graph: FlowGraph;
  readonly options: FlowOptions;
  readonly schema: StandardSchema | undefined;
  readonly activities: readonly ActivityDefinition[];
  /** The schemas of signals, by name. */
  readonly signals: ReadonlyMap<string, StandardSchema>;
  readonly onAbandoned?: OnAbandoned<unknown> | undefined;
}): FlowDefinition {
  const { graph, options: flowOptions, schema, activities, signals, onAbandoned } = parts;
  const names: ReadonlySet<string> = new Set(activities.map(({ name }) => name));
  const code: OrchestrationDefinition<RunInput>['handler'] = (ctx, run) =>
    interpret(ctx, run, { activities: names, signals });
  // A worker's build id is a hash of its orchestrations' source. The source of a flow is the names of its activities, so
  // that a worker that has the missing handler retries blocked runs immediately.
  Object.defineProperty(code, 'toString', { value: () => [...names].sort().join('\n') });
  const definition = orchestration<RunInput>(graph.name, code, {
    version: flowVersion,
    ...(schema !== undefined && { input: runSchema(schema) }),
    ...(onAbandoned !== undefined && { onAbandoned }),
    ...flowOptions,
  });
  return Object.freeze({
    kind: 'flow',
    name: graph.name,
    graph,
    orchestration: definition,
    activities: Object.freeze([...activities]),
    start: (client: Client, input: unknown, options: RunFlowOptions = {}) => {
      const { priority, ...rest } = options;
      const run = { flow: graph, input, ...(priority !== undefined && { priority }) };
      return startFlow(client, definition, { run, options: rest });
    },
  });
}

/** Wraps the schema of the flow's input into one for the orchestration's input. */
function runSchema(schema: StandardSchema): StandardSchema<RunInput> {
  return {
    '~standard': {
      version: 1,
      vendor: 'perdure',
      validate: async (value) => {
        const run = value as RunInput;
        const result = await schema['~standard'].validate(run.input);
        return result.issues === undefined
          ? { value: { ...run, input: result.value } }
          : { issues: result.issues };
      },
    },
  };
}

/**
 * Starts a run, which stores a copy of its graph. A repeated start with the same input returns the existing run, even
 * if the flow was redefined in between.
 */
async function startFlow(
  client: Client,
  definition: OrchestrationDefinition<RunInput>,
  start: { readonly run: RunInput; readonly options: StartOptions | undefined },
): Promise<Handle> {
  const { run, options } = start;
  try {
    return await client.start(definition, run, options);
  } catch (error) {
    const id = options?.id;
    if (id === undefined || !isPerdureError(error, 'INSTANCE_ALREADY_EXISTS')) throw error;
    const earlier = await readRunInput(client, id);
    const isSame =
      earlier?.flow.name === run.flow.name && isSameJson(earlier.input, asJson(run.input));
    if (!isSame) throw error;
    return client.handle(id);
  }
}

function asJson(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}
