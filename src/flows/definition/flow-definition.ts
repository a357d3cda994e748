import {
  flowVersion,
  orchestration,
  isPerdureError,
  type OnAbandoned,
  type ActivityDefinition,
  type Client,
  type Handle,
  type OrchestrationDefinition,
  type StandardSchema,
  type RunFlowOptions,
  type StartOptions,
} from '../../index.ts';
import { interpret } from '../interpreter/interpret.ts';
import { readRunInput } from './run-format.ts';
import { isSameJson } from './condition.ts';
import type { FlowGraph, RunInput } from './graph.ts';

/** A flow that workers can run and clients can start. */
export interface FlowDefinition<Input = unknown, Output = unknown> {
  readonly kind: 'flow';
  readonly name: string;
  /** Its steps as plain data: what a run is started with, and keeps. */
  readonly graph: FlowGraph;
  /** The orchestration that runs it. */
  readonly orchestration: OrchestrationDefinition<RunInput>;
  /** The activities that run its steps. */
  readonly activities: readonly ActivityDefinition[];
  readonly '~input'?: readonly [Input];
  readonly '~output'?: readonly [Output];
  /** Starts a run; what `client.runFlow` calls. */
  start(client: Client, input: Input, options?: RunFlowOptions): Promise<Handle>;
}

/** Puts a flow together from its graph and its code. */
export function defineFlow(parts: {
  readonly graph: FlowGraph;
  readonly schema: StandardSchema | undefined;
  readonly activities: readonly ActivityDefinition[];
  /** The schemas of signals, by name. */
  readonly signals: ReadonlyMap<string, StandardSchema>;
  readonly onAbandoned?: OnAbandoned<unknown> | undefined;
}): FlowDefinition {
  const { graph, schema, activities, signals, onAbandoned } = parts;
  const names: ReadonlySet<string> = new Set(activities.map(({ name }) => name));
  const code: OrchestrationDefinition<RunInput>['handler'] = (ctx, run) =>
    interpret(ctx, run, { activities: names, signals });
  // The build id of a worker is made from the source of its code: for a flow that is what it has handlers for, so
  // that runs which are held back for want of one are tried at once where it has come.
  Object.defineProperty(code, 'toString', { value: () => [...names].sort().join('\n') });
  const definition = orchestration<RunInput>(graph.name, code, {
    version: flowVersion,
    ...(schema !== undefined && { input: runSchema(schema) }),
    ...(onAbandoned !== undefined && { onAbandoned }),
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

/** Validates the flow's input where that of its orchestration is validated. */
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
 * Starts a run with its graph frozen into it. The same start after the flow was redefined finds the run that is
 * there, which goes on as it was defined when it began.
 */
export async function startFlow(
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
