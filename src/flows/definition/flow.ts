import type { CallOptions, EventToken, OnAbandoned, StandardSchema } from '../../index.ts';
import type { Condition } from './condition.ts';
import { FlowBuilder } from './flow-builder.ts';
import type { FlowDefinition } from './flow-definition.ts';
import type { FlowFailure } from './flow-errors.ts';
import type { GeneratorContext } from '../interpreter/generator-activity.ts';
import { checkFlowName } from './graph-check.ts';
import type { Ref, Reference } from './reference.ts';
import type { StepContext } from '../interpreter/step-context.ts';

/** What is known of a flow while it is being built. */
interface Shape {
  /** What a run is started with. */
  readonly started: unknown;
  /** What the schema of the input makes of that; without a schema the same. */
  readonly input: unknown;
  /** The output of each step, by name. */
  readonly steps: object;
  /** Names of steps that may be skipped. */
  readonly skippable: string;
  /** Names of steps that others depend on. */
  readonly used: string;
  /** What a step may complete the whole flow with. */
  readonly early: unknown;
}

type StepName<S extends Shape> = keyof S['steps'] & string;
type OutputOf<S extends Shape, Name> = Name extends keyof S['steps'] ? S['steps'][Name] : never;

declare const none: unique symbol;
/** Stands for a step without a signal. */
type NoSignal = typeof none;

/** The output of an item in the array of all: JSON has no `undefined` there. */
type Listed<T> = T extends undefined | void ? null : T;

type Flat<T> = { readonly [Key in keyof T]: T[Key] };

/** What a handler gets of its dependencies and its signal. */
type Given<S extends Shape, Needs extends string, Optional extends string, Signal> = {
  readonly [Name in Needs]: OutputOf<S, Name>;
} & { readonly [Name in Optional]: OutputOf<S, Name> | undefined } & ([Signal] extends [NoSignal]
    ? unknown
    : { readonly signal: Signal });

type WithInput<S extends Shape> = { readonly input: S['input'] };

/** What a condition can look at. */
type Visible<S extends Shape, Needs extends string, Optional extends string> = {
  readonly input: Ref<S['input'], 'input'>;
} & { readonly [Name in Needs | Optional]: Ref<OutputOf<S, Name>, Name> };

/** Where the array of a map or reduce may lie. */
type Sources<S extends Shape> = { readonly input: Ref<S['input'], 'input'> } & {
  readonly [Name in Exclude<StepName<S>, S['skippable']>]: Ref<OutputOf<S, Name>, Name>;
};

/** How a step hangs together with others, and how it is tried. */
interface StepOptions<
  S extends Shape,
  Needs extends string,
  Optional extends string,
  After extends string,
  Signal,
  Skips extends boolean,
> extends CallOptions {
  /** Steps whose output the handler is given. */
  readonly needs?: readonly Needs[] | undefined;
  /** Steps that may be skipped: the handler is given their output or `undefined`. */
  readonly optional?: readonly Optional[] | undefined;
  /** Steps that it only comes after. */
  readonly after?: readonly After[] | undefined;
  /** Skips the step unless this holds. It is data, frozen into the run. */
  readonly when?: ((given: Visible<S, Needs, Optional>) => Condition<Skips>) | undefined;
  /** Waits for this signal as well as for its dependencies. */
  readonly signal?: EventToken<unknown, Signal> | undefined;
}

/** How a map is run. */
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
  /** The array: the input, a step's output, or a part of one. */
  readonly over: (sources: Sources<S>) => Reference<readonly Item[], From>;
  /** How many items are in flight at most. Default 1,000. */
  readonly concurrency?: number | undefined;
}

/** How a generator is run. */
interface GeneratorOptions<
  S extends Shape,
  Needs extends string,
  Optional extends string,
  After extends string,
  Signal,
  Skips extends boolean,
> extends StepOptions<S, Needs, Optional, After, Signal, Skips> {
  /** How many items are in flight at most. Default 1,000. */
  readonly concurrency?: number | undefined;
  /** The generator itself begins at `ctx.yielded`. Default: it begins anew, and what is there is dropped. */
  readonly resumes?: boolean | undefined;
}

/** How a reduce is run. */
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
  /** The array: the input, a step's output, or a part of one. */
  readonly over: (sources: Sources<S>) => Reference<readonly Item[], From>;
  /** What the first item is added to, and the output when there are none. */
  readonly initial: Accumulated;
  /** How many items a worker is given together; a failure folds them again. Default 100. */
  readonly batch?: number | undefined;
}

/** A flow with one more step. */
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

/** A flow that is being built. Each call answers a new one; `output` ends it. */
export interface Flow<S extends Shape> {
  /** Says what the flow is started with; a schema checks it. */
  input<Parsed, Input = Parsed>(
    schema?: StandardSchema<Input, Parsed>,
  ): Flow<Flat<Omit<S, 'input' | 'started'> & { readonly started: Input; readonly input: Parsed }>>;

  /** Says what `ctx.completeEarly` may complete the flow with, `undefined` included. */
  completesEarly<Output>(): Flow<
    Flat<Omit<S, 'early'> & { readonly early: Output extends void ? undefined : Output }>
  >;

  /** Adds a step that depends on nothing but the input. */
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

  /** Adds a step that runs once for each item of an array; its output is the array of results, in order. */
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

  /** Adds a step whose items are yielded while they are worked on; its output is the array of results, in order. */
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

  /** Adds a step that folds an array in order, a batch at a time; items of a map or generator while those still run. */
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

  /** Runs when the flow has failed, never when it was canceled. The flow stays failed. */
  onFail(
    handler: (ctx: StepContext, failure: FlowFailure<S['input'], S['steps']>) => unknown,
    options?: CallOptions,
  ): Flow<S>;

  /** Disposes of the output of a job that completed although its caller had gone; tried until it succeeds. */
  onAbandoned(handler: OnAbandoned<OutputOf<S, StepName<S>> | S['early']>): Flow<S>;

  /**
   * Ends the definition. The flow's output is that of the first of these steps that completed; with none named, of
   * the steps that no other depends on, in the order of their definition.
   */
  output(): FlowDefinition<S['started'], OutputOf<S, Exclude<StepName<S>, S['used']>> | S['early']>;
  output<const Names extends readonly [StepName<S>, ...StepName<S>[]]>(
    ...names: Names
  ): FlowDefinition<S['started'], OutputOf<S, Names[number]> | S['early']>;
}

/** A flow without steps. */
export interface EmptyShape {
  readonly started: undefined;
  readonly input: undefined;
  readonly steps: object;
  readonly skippable: never;
  readonly used: never;
  readonly early: never;
}

/** Begins the definition of a flow: a graph of steps that run as soon as what they depend on is there. */
export function flow(name: string): Flow<EmptyShape> {
  return new FlowBuilder({
    name: checkFlowName(name),
    nodes: [],
    activities: [],
  }) as unknown as Flow<EmptyShape>;
}
