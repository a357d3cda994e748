import type { ActivityDefaults, CallOptions, RetryPolicy } from '../../index.ts';
import { pathsOf, type Expression } from './condition.ts';
import type { Path } from './reference.ts';

/** The kind of a step. */
export type StepKind = 'step' | 'map' | 'generator' | 'reduce';

/** A step of a flow as plain data. */
export interface StepNode {
  readonly name: string;
  readonly kind: StepKind;
  /** Steps whose output the handler receives. They cannot be skipped. */
  readonly needs: readonly string[];
  /** Steps whose output the handler receives, or `undefined` if they were skipped. */
  readonly optional: readonly string[];
  /** Steps that must settle first, without passing their output. */
  readonly after: readonly string[];
  /** The path to the array of a map or reduce. */
  readonly over?: Path;
  readonly when?: Expression;
  /** The signal that it waits for, in addition to its dependencies. */
  readonly signal?: string;
  /** Maximum items in flight. */
  readonly concurrency?: number;
  /** Items per activity call of a reduce. */
  readonly batch?: number;
  /** The initial accumulator of a reduce. */
  readonly initial?: unknown;
  readonly call?: FrozenCall;
  /** The path to the key of its calls. A constant key is part of `call`. */
  readonly key?: Path;
}

/** Call options in a form that JSON can represent. */
export interface FrozenCall extends Omit<CallOptions, 'retry'> {
  /** `maxAttempts: null` means no limit, because JSON has no Infinity. Error classes are stored by name. */
  readonly retry?: Omit<RetryPolicy, 'maxAttempts' | 'nonRetryable'> & {
    readonly maxAttempts?: number | null;
    readonly nonRetryable?: readonly (string | { readonly class: string })[];
  };
}

/** A flow without its handlers. Each run stores a copy, which later definitions do not change. */
export interface FlowGraph {
  /** The version of this format. */
  readonly format: 1;
  readonly name: string;
  readonly steps: readonly StepNode[];
  /** Output candidates: the flow's output is that of the first one that completed. */
  readonly output: readonly string[];
  readonly onFail?: { readonly call?: FrozenCall };
}

/** The input of a flow's orchestration. */
export interface RunInput<Input = unknown> {
  readonly flow: FlowGraph;
  readonly input?: Input;
  /** The priority of steps without one. */
  readonly priority?: number;
}

export const inputName = 'input';

/** Returns the steps that must settle before a step starts. A streamed source is not among them. */
export function dependenciesOf(node: StepNode, graph: FlowGraph): readonly string[] {
  const source = sourceOf(node);
  const whole = source === undefined || isStreamed(node, graph) ? [] : [source];
  return [...new Set([...node.needs, ...node.optional, ...node.after, ...whole])];
}

/** Returns the step whose output a map or reduce reads; `undefined` for the input and for other kinds. */
export function sourceOf({ over }: StepNode): string | undefined {
  return over === undefined || over[0] === inputName ? undefined : over[0];
}

/** Whether a reduce folds the items of a map or generator while that runs. */
export function isStreamed(node: StepNode, graph: FlowGraph): boolean {
  const source = sourceOf(node);
  if (node.kind !== 'reduce' || source === undefined || node.over?.length !== 1) return false;
  return graph.steps.some(({ name, kind }) => name === source && hasItems(kind));
}

export function hasItems(kind: StepKind): kind is 'map' | 'generator' {
  return kind === 'map' || kind === 'generator';
}

/** Returns the steps whose whole output is read: by dependents, by conditions or as the flow's output. */
export function wholeOutputs(graph: FlowGraph): ReadonlySet<string> {
  const wanted = new Set(graph.output);
  for (const node of graph.steps) {
    for (const name of [...node.needs, ...node.optional]) wanted.add(name);
    for (const [name] of node.when === undefined ? [] : pathsOf(node.when)) wanted.add(name);
    const source = sourceOf(node);
    if (source !== undefined && !isStreamed(node, graph)) wanted.add(source);
  }
  return wanted;
}

/** Returns the steps whose output is read by a condition, or is the array of a map or reduce. */
export function decisiveOutputs(graph: FlowGraph): ReadonlySet<string> {
  const decisive = new Set<string>();
  for (const node of graph.steps) {
    for (const [name] of node.when === undefined ? [] : pathsOf(node.when)) decisive.add(name);
    const source = graph.steps.find(({ name }) => name === sourceOf(node));
    // The output of a map or generator is not needed: counting its items is enough.
    const isCounted = source !== undefined && hasItems(source.kind) && node.over?.length === 1;
    if (source !== undefined && !isCounted) decisive.add(source.name);
  }
  return decisive;
}

/** Returns the steps that no other step depends on, in definition order. */
export function terminalSteps(steps: readonly StepNode[]): readonly string[] {
  const used = new Set(
    steps.flatMap((node) => [
      ...node.needs,
      ...node.optional,
      ...node.after,
      ...(node.over === undefined ? [] : [node.over[0]]),
    ]),
  );
  return steps.map(({ name }) => name).filter((name) => !used.has(name));
}

/** The names of the activities that run the handlers of a step. */
export const activityNames = {
  step: (flow: string, step: string) => `${flow}/${step}`,
  map: (flow: string, step: string) => `${flow}/${step}$map`,
  reduce: (flow: string, step: string) => `${flow}/${step}$reduce`,
  generator: (flow: string, step: string) => `${flow}/${step}$item`,
  generate: (flow: string, step: string) => `${flow}/${step}$generate`,
  onFail: (flow: string) => `${flow}/$onFail`,
} as const;

/** The name of the event with which a generator sends items to its run. */
export function itemsEvent(step: string): string {
  return `$items/${step}`;
}

/** The name of the event that carries a signal. */
export function signalEvent(signal: string): string {
  return `$signal/${signal}`;
}

/** The step options that apply to its activity calls. `activity()` validates their values. */
export const callOptionNames: readonly string[] = [
  'retry',
  'attemptTimeout',
  'timeout',
  'priority',
  'cancellation',
];

/** Returns the call options among the options of a step, without its key. */
export function pickCall(options: object): ActivityDefaults {
  const chosen = Object.entries(options).filter(
    ([key, value]) => value !== undefined && callOptionNames.includes(key),
  );
  return Object.fromEntries(chosen);
}

/** Converts call options to a form that JSON can represent. */
export function freezeCall(options: ActivityDefaults): FrozenCall | undefined {
  const { retry, ...rest } = pickCall(options);
  if (retry === undefined) return Object.keys(rest).length === 0 ? undefined : rest;
  const { nonRetryable, ...policy } = retry;
  return {
    ...rest,
    retry: {
      ...policy,
      ...(retry.maxAttempts === Infinity && { maxAttempts: null }),
      ...(nonRetryable !== undefined && { nonRetryable: nonRetryable.map(nameClass) }),
    },
  };
}

// `activity()` validates the entries, as all options.
function nameClass(
  entry: NonNullable<RetryPolicy['nonRetryable']>[number],
): string | { readonly class: string } {
  return typeof entry === 'function' ? { class: entry.name } : entry;
}

/** Restores frozen call options, with the priority of the run as the default. */
export function thawCall(
  frozen: FrozenCall | undefined,
  run: Pick<RunInput, 'priority'>,
): CallOptions {
  const { retry, ...rest } = frozen ?? {};
  if (retry === undefined) return { ...run, ...rest };
  const { maxAttempts, ...policy } = retry;
  const attempts = maxAttempts !== undefined && { maxAttempts: maxAttempts ?? Infinity };
  return { ...run, ...rest, retry: { ...policy, ...attempts } };
}
