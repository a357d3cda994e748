import type { CallOptions, RetryPolicy } from '../../index.ts';
import { pathsOf, type Expression } from './condition.ts';
import type { Path } from './reference.ts';

/** The kinds of steps. */
export type StepKind = 'step' | 'map' | 'generator' | 'reduce';

/** One step of a flow, as plain data. */
export interface StepNode {
  readonly name: string;
  readonly kind: StepKind;
  /** Steps whose output it is given, and that are never skipped. */
  readonly needs: readonly string[];
  /** Steps whose output it is given unless they were skipped. */
  readonly optional: readonly string[];
  /** Steps that it only comes after. */
  readonly after: readonly string[];
  /** Where the array of a map or reduce lies. */
  readonly over?: Path;
  readonly when?: Expression;
  /** The signal that it waits for besides its dependencies. */
  readonly signal?: string;
  /** How many items are in flight at most. */
  readonly concurrency?: number;
  /** How many items go to a worker together, in a reduce. */
  readonly batch?: number;
  /** What a reduce begins with. */
  readonly initial?: unknown;
  readonly call?: FrozenCall;
}

/** The options of a call as JSON carries them. */
export interface FrozenCall extends Omit<CallOptions, 'retry'> {
  /** `maxAttempts: null` stands for no limit: JSON has no Infinity. Classes of errors are kept by their names. */
  readonly retry?: Omit<RetryPolicy, 'maxAttempts' | 'nonRetryable'> & {
    readonly maxAttempts?: number | null;
    readonly nonRetryable?: readonly (string | { readonly class: string })[];
  };
}

/** A flow without its code: what a run is started with, and keeps whatever later definitions say. */
export interface FlowGraph {
  /** How to read it. */
  readonly format: 1;
  readonly name: string;
  readonly steps: readonly StepNode[];
  /** The first of these that completed gives the output. */
  readonly output: readonly string[];
  readonly onFail?: { readonly call?: FrozenCall };
}

/** What the orchestration of a flow is started with. */
export interface RunInput<Input = unknown> {
  readonly flow: FlowGraph;
  readonly input?: Input;
  /** Of the steps that have none of their own. */
  readonly priority?: number;
}

export const inputName = 'input';

/** The steps that must have settled before a step can begin; a reduce reads its source while that runs. */
export function dependenciesOf(node: StepNode, graph: FlowGraph): readonly string[] {
  const source = sourceOf(node);
  const whole = source === undefined || isStreamed(node, graph) ? [] : [source];
  return [...new Set([...node.needs, ...node.optional, ...node.after, ...whole])];
}

/** The step whose array a map or reduce takes; `undefined` for the flow's input, or other kinds of steps. */
export function sourceOf({ over }: StepNode): string | undefined {
  return over === undefined || over[0] === inputName ? undefined : over[0];
}

/** Whether a reduce folds the items of a map or generator as they come. */
export function isStreamed(node: StepNode, graph: FlowGraph): boolean {
  const source = sourceOf(node);
  if (node.kind !== 'reduce' || source === undefined || node.over?.length !== 1) return false;
  return graph.steps.some(({ name, kind }) => name === source && hasItems(kind));
}

export function hasItems(kind: StepKind): kind is 'map' | 'generator' {
  return kind === 'map' || kind === 'generator';
}

/** The steps whose whole output somebody asks for: dependants, conditions, the flow itself. */
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

/** The steps whose output decides what becomes of others: it is in a condition, or holds the items of a map or reduce. */
export function decisiveOutputs(graph: FlowGraph): ReadonlySet<string> {
  const decisive = new Set<string>();
  for (const node of graph.steps) {
    for (const [name] of node.when === undefined ? [] : pathsOf(node.when)) decisive.add(name);
    const source = graph.steps.find(({ name }) => name === sourceOf(node));
    // The items of a map or generator are counted.
    const isCounted = source !== undefined && hasItems(source.kind) && node.over?.length === 1;
    if (source !== undefined && !isCounted) decisive.add(source.name);
  }
  return decisive;
}

/** The steps that no other step depends on, in the order in which they were defined. */
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

/** The names of the activities that run a step: what a worker must know to take part in it. */
export const activityNames = {
  step: (flow: string, step: string) => `${flow}/${step}`,
  map: (flow: string, step: string) => `${flow}/${step}$map`,
  reduce: (flow: string, step: string) => `${flow}/${step}$reduce`,
  generator: (flow: string, step: string) => `${flow}/${step}$item`,
  generate: (flow: string, step: string) => `${flow}/${step}$generate`,
  onFail: (flow: string) => `${flow}/$onFail`,
} as const;

/** The event in which a generator reports items. */
export function itemsEvent(step: string): string {
  return `$items/${step}`;
}

/** The event that carries a signal. */
export function signalEvent(signal: string): string {
  return `$signal/${signal}`;
}

/** Options of a step that are those of its calls; whether a value makes sense is for activities to say. */
export const callOptionNames: readonly string[] = [
  'retry',
  'attemptTimeout',
  'timeout',
  'priority',
  'cancellation',
];

/** The options of a step's calls, among all of its options. */
export function pickCall(options: object): CallOptions {
  const chosen = Object.entries(options).filter(
    ([key, value]) => value !== undefined && callOptionNames.includes(key),
  );
  return Object.fromEntries(chosen);
}

/** Makes options fit for JSON. */
export function freezeCall(options: CallOptions): FrozenCall | undefined {
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

// Whether an entry makes sense is for activities to say, as for all options.
function nameClass(
  entry: NonNullable<RetryPolicy['nonRetryable']>[number],
): string | { readonly class: string } {
  return typeof entry === 'function' ? { class: entry.name } : entry;
}

/** The options that were frozen, with the priority of the run where they have none. */
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
