/**
 * What a client or an orchestration needs to know of an orchestration: its name, its version, its types.
 * The phantom fields carry types only; they never exist at run time. Each type is wrapped in a tuple: inference
 * from an optional property drops `undefined` from its type unless `exactOptionalPropertyTypes` is on.
 */
export interface OrchestrationRef<Input = unknown, Output = unknown> {
  readonly kind: 'orchestration';
  readonly name: string;
  readonly version: string;
  /** Validates an input where it enters: at `start` and `child`. */
  readonly inputSchema?: StandardSchema | undefined;
  readonly '~input'?: readonly [Input];
  readonly '~output'?: readonly [Output];
}

/** What an orchestration needs to know of an activity. */
export interface ActivityRef<Input = unknown, Output = unknown> {
  readonly kind: 'activity';
  readonly name: string;
  readonly inputSchema?: StandardSchema | undefined;
  readonly '~input'?: readonly [Input];
  readonly '~output'?: readonly [Output];
}

/** What a client needs to know of a task: its name, its types, and what a run gets unless it says otherwise. */
export interface TaskRef<Input = unknown, Output = unknown> {
  readonly kind: 'task';
  readonly name: string;
  readonly inputSchema?: StandardSchema | undefined;
  readonly runDefaults?: TaskRunDefaults | undefined;
  readonly '~input'?: readonly [Input];
  readonly '~output'?: readonly [Output];
}

/** What holds for the runs of a task that do not choose themselves. */
export interface TaskRunDefaults {
  readonly priority?: number | undefined;
  readonly expiresInMs?: number | undefined;
  /** Whether a handler is to be run after a failure. */
  readonly onFail: boolean;
}

/** What a schedule needs to know of a flow: the orchestration that runs it, and the graph that each run is given. */
export interface FlowRef<Input = unknown, Output = unknown> {
  readonly kind: 'flow';
  readonly name: string;
  readonly graph: object;
  readonly orchestration: OrchestrationRef;
  readonly '~input'?: readonly [Input];
  readonly '~output'?: readonly [Output];
}

/** The name of an external event, the type that is raised (`Value`) and the type that its schema makes of it (`Parsed`). */
export interface EventToken<Value = unknown, Parsed = Value> {
  readonly kind: 'event';
  readonly name: string;
  readonly schema?: StandardSchema | undefined;
  readonly '~value'?: readonly [Value];
  readonly '~parsed'?: readonly [Parsed];
}

/** The part of the Standard Schema interface that Perdure uses; zod, valibot and arktype schemas have it. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}
