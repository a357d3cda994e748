import type {
  ActivityDefaults,
  CallOptions,
  EventToken,
  OnAbandoned,
  StandardSchema,
} from '../../index.ts';
import type { GeneratorContext } from '../interpreter/generator-activity.ts';
import type { StepContext } from '../interpreter/step-context.ts';
import type { Condition } from './condition.ts';
import { FlowBuilder } from './flow-builder.ts';
import { checkFlowOptions, type FlowDefinition, type FlowOptions } from './flow-definition.ts';
import type { FlowFailure } from './flow-errors.ts';
import { checkFlowName } from './graph-check.ts';
import type { Ref, Reference } from './reference.ts';

/** The types of a flow while it is being built. */
interface Shape {
  /** The input of `client.runFlow`. */
  readonly started: unknown;
  /** The input after the schema; without a schema the same as `started`. */
  readonly input: unknown;
  /** The output of each step, by name. */
  readonly steps: object;
  /** Names of steps that may be skipped. */
  readonly skippable: string;
  /** Names of steps that other steps depend on. */
  readonly used: string;
  /** The output type of `completeEarly`. */
  readonly early: unknown;
}

type StepName<S extends Shape> = keyof S['steps'] & string;
type OutputOf<S extends Shape, Name> = Name extends keyof S['steps'] ? S['steps'][Name] : never;

declare const none: unique symbol;
/** The signal type of a step without a signal. */
type NoSignal = typeof none;

/** The output of an item in the array of outputs. JSON has no `undefined` in arrays. */
type Listed<T> = T extends undefined | void ? null : T;

type Flat<T> = { readonly [Key in keyof T]: T[Key] };

/** The handler inputs from dependencies and the signal. */
type Given<S extends Shape, Needs extends string, Optional extends string, Signal> = {
  readonly [Name in Needs]: OutputOf<S, Name>;
} & { readonly [Name in Optional]: OutputOf<S, Name> | undefined } & ([Signal] extends [NoSignal]
    ? unknown
    : { readonly signal: Signal });

type WithInput<S extends Shape> = { readonly input: S['input'] };

/** The references that a condition can read. */
type Visible<S extends Shape, Needs extends string, Optional extends string> = {
  readonly input: Ref<S['input'], 'input'>;
} & { readonly [Name in Needs | Optional]: Ref<OutputOf<S, Name>, Name> };

/** The references that `over` of a map or reduce can return. */
type Sources<S extends Shape> = { readonly input: Ref<S['input'], 'input'> } & {
  readonly [Name in Exclude<StepName<S>, S['skippable']>]: Ref<OutputOf<S, Name>, Name>;
};

/** Options of a step: its dependencies, and the options of its activity calls. */
interface StepOptions<
  S extends Shape,
  Needs extends string,
  Optional extends string,
  After extends string,
  Signal,
  Skips extends boolean,
> extends Omit<CallOptions, 'key'> {
  /**
   * The key of its calls, for limits per key: a text, or a reference to one, such as `({ input }) => input.tenant`.
   * It is stored with the run as data.
   */
  readonly key?:
    | string
    | ((given: Visible<S, Needs, Optional>) => Reference<string | undefined>)
    | undefined;
  /** Steps whose output the handler receives. */
  readonly needs?: readonly Needs[] | undefined;
  /** Steps that may be skipped. The handler receives their output or `undefined`. */
  readonly optional?: readonly Optional[] | undefined;
  /** Steps that must settle first, without passing their output. */
  readonly after?: readonly After[] | undefined;
  /** Runs the step only if this condition is true. It is stored with the run as data. */
  readonly when?: ((given: Visible<S, Needs, Optional>) => Condition<Skips>) | undefined;
  /** Waits for this signal in addition to its dependencies. */
  readonly signal?: EventToken<unknown, Signal> | undefined;
}

/** Options of a map. */
interface MapOptions<
  S extends Shape,
  Needs extends string,
  Optional extends string,
  After extends string,
  Signal,
  Skips extends boolean,
  Item,
  From extends string,
> extends StepOptions<S, Needs, Optional, After, Signal, Skips> {
  /** Returns the array: the input, a step's output, or a part of one. */
  readonly over: (sources: Sources<S>) => Reference<readonly Item[], From>;
  /** Maximum items in flight. Default: 1,000. */
  readonly concurrency?: number | undefined;
}

/** Options of a generator. */
interface GeneratorOptions<
  S extends Shape,
  Needs extends string,
  Optional extends string,
  After extends string,
  Signal,
  Skips extends boolean,
> extends StepOptions<S, Needs, Optional, After, Signal, Skips> {
  /** Maximum items in flight. Default: 1,000. */
  readonly concurrency?: number | undefined;
  /** Set if a retry starts at index `ctx.yielded`. Default: false, a retry yields all items again. */
  readonly resumes?: boolean | undefined;
}

/** Options of a reduce. */
interface ReduceOptions<
  S extends Shape,
  Needs extends string,
  Optional extends string,
  After extends string,
  Signal,
  Skips extends boolean,
  Item,
  From extends string,
  Accumulated,
> extends StepOptions<S, Needs, Optional, After, Signal, Skips> {
  /** Returns the array: the input, a step's output, or a part of one. */
  readonly over: (sources: Sources<S>) => Reference<readonly Item[], From>;
  /** The initial accumulator, and the output if there are no items. */
  readonly initial: Accumulated;
  /** Items per activity call; a retry folds the batch again. Default: 100. */
  readonly batch?: number | undefined;
}

/** The flow with one more step. */
type Added<
  S extends Shape,
  Name extends string,
  Output,
  Skips extends boolean,
  Used extends string,
> = Flow<{
  readonly started: S['started'];
  readonly input: S['input'];
  readonly steps: Flat<S['steps'] & { readonly [Key in Name]: Awaited<Output> }>;
  readonly skippable: S['skippable'] | (true extends Skips ? Name : never);
  readonly used: S['used'] | Exclude<Used, 'input'>;
  readonly early: S['early'];
}>;

/** Builds a flow. Each call returns a new builder; `output` completes the definition. */
export interface Flow<S extends Shape> {
  /** Sets the type of the flow's input. A schema validates it on start. */
  input<Parsed, Input = Parsed>(
    schema?: StandardSchema<Input, Parsed>,
  ): Flow<Flat<Omit<S, 'input' | 'started'> & { readonly started: Input; readonly input: Parsed }>>;

  /** Sets the output type of `ctx.completeEarly`, which may be `undefined`. */
  completesEarly<Output>(): Flow<
    Flat<Omit<S, 'early'> & { readonly early: Output extends void ? undefined : Output }>
  >;

  /** Adds a step without dependencies. */
  step<Name extends string, Output>(
    name: Name,
    handler: (ctx: StepContext<S['early']>, given: WithInput<S>) => Output,
  ): Added<S, Name, Output, false, never>;
  /** Adds a step. */
  step<
    Name extends string,
    Output,
    Needs extends Exclude<StepName<S>, S['skippable']> = never,
    Optional extends StepName<S> = never,
    After extends StepName<S> = never,
    Signal = NoSignal,
    Skips extends boolean = false,
  >(
    name: Name,
    options: StepOptions<S, Needs, Optional, After, Signal, Skips>,
    handler: (
      ctx: StepContext<S['early']>,
      given: Flat<WithInput<S> & Given<S, Needs, Optional, Signal>>,
    ) => Output,
  ): Added<S, Name, Output, Skips, Needs | Optional | After>;

  /** Adds a step that runs once per item of an array. Its output is the array of results, in order. */
  map<
    Name extends string,
    Item,
    From extends string,
    Output,
    Needs extends Exclude<StepName<S>, S['skippable']> = never,
    Optional extends StepName<S> = never,
    After extends StepName<S> = never,
    Signal = NoSignal,
    Skips extends boolean = false,
  >(
    name: Name,
    options: MapOptions<S, Needs, Optional, After, Signal, Skips, Item, From>,
    handler: (
      ctx: StepContext<S['early']>,
      item: Item,
      given: Flat<Given<S, Needs, Optional, Signal>>,
    ) => Output,
  ): Added<S, Name, readonly Listed<Awaited<Output>>[], Skips, Needs | Optional | After | From>;

  /** Adds a step that runs once per yielded item, while the generator runs. Its output is the array of results, in order. */
  generator<
    Name extends string,
    Item,
    Output,
    Needs extends Exclude<StepName<S>, S['skippable']> = never,
    Optional extends StepName<S> = never,
    After extends StepName<S> = never,
    Signal = NoSignal,
    Skips extends boolean = false,
  >(
    name: Name,
    options: GeneratorOptions<S, Needs, Optional, After, Signal, Skips>,
    generate: (
      ctx: GeneratorContext,
      given: Flat<WithInput<S> & Given<S, Needs, Optional, Signal>>,
    ) => AsyncIterable<Item>,
    handler: (
      ctx: StepContext<S['early']>,
      item: Item,
      given: Flat<Given<S, Needs, Optional, Signal>>,
    ) => Output,
  ): Added<S, Name, readonly Listed<Awaited<Output>>[], Skips, Needs | Optional | After>;

  /** Adds a step that folds an array in order, in batches. It folds the items of a map or generator while those run. */
  reduce<
    Name extends string,
    Item,
    From extends string,
    Accumulated,
    Needs extends Exclude<StepName<S>, S['skippable']> = never,
    Optional extends StepName<S> = never,
    After extends StepName<S> = never,
    Signal = NoSignal,
    Skips extends boolean = false,
  >(
    name: Name,
    options: ReduceOptions<S, Needs, Optional, After, Signal, Skips, Item, From, Accumulated>,
    handler: (
      ctx: StepContext<S['early']>,
      accumulator: NoInfer<Accumulated>,
      item: Item,
      given: Flat<Given<S, Needs, Optional, Signal>>,
    ) => NoInfer<Accumulated> | Promise<NoInfer<Accumulated>>,
  ): Added<S, Name, Accumulated, Skips, Needs | Optional | After | From>;

  /** Adds a handler that runs when the flow fails, but not when it is canceled. The flow stays failed. */
  onFail(
    handler: (ctx: StepContext, failure: FlowFailure<S['input'], S['steps']>) => unknown,
    options?: ActivityDefaults,
  ): Flow<S>;

  /** Adds a handler for the output of a job whose caller disappeared. It is retried until it succeeds. */
  onAbandoned(handler: OnAbandoned<OutputOf<S, StepName<S>> | S['early']>): Flow<S>;

  /**
   * Completes the definition. The flow's output is that of the first of these steps that completed. Default candidates:
   * the steps that no other step depends on, in definition order.
   */
  output(): FlowDefinition<S['started'], OutputOf<S, Exclude<StepName<S>, S['used']>> | S['early']>;
  output<const Names extends readonly [StepName<S>, ...StepName<S>[]]>(
    ...names: Names
  ): FlowDefinition<S['started'], OutputOf<S, Names[number]> | S['early']>;
}

/** The types of a flow without steps. */
export interface EmptyShape {
  readonly started: undefined;
  readonly input: undefined;
  readonly steps: object;
  readonly skippable: never;
  readonly used: never;
  readonly early: never;
}

/** Starts the definition of a flow: a graph of steps, each of which runs once its dependencies have settled. */
export function flow(name: string, options: FlowOptions = {}): Flow<EmptyShape> {
  return new FlowBuilder({
    name: checkFlowName(name),
    options: checkFlowOptions(name, options),
    nodes: [],
    activities: [],
  }) as unknown as Flow<EmptyShape>;
}
