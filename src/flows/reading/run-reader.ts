import { isPerdureError, type Failure, type InstanceInfo } from '../../index.ts';
import { holds } from '../definition/condition.ts';
import type { FlowHistory, RecordedCall } from './flow-history.ts';
import type { FlowItem, FlowStep, ItemCounts, StepState, StepStatus } from './flow-run.ts';
import { statusOf, takenSignal } from '../definition/run-format.ts';
import {
  activityNames,
  dependenciesOf,
  hasItems,
  inputName,
  sourceOf,
  type FlowGraph,
  type StepNode,
} from '../definition/graph.ts';
import { follow, showPath } from '../definition/reference.ts';
import { notAnArray } from '../interpreter/step-runs.ts';

/** The state of a step, with what those who depend on it need to know. */
interface Known {
  readonly state: StepState;
  readonly items?: ItemCounts;
  /** Absent for a step that gave nothing. */
  readonly output?: unknown;
}

/**
 * Derives the state of every step from the calls in a history. What the interpreter decides without a call (a skip, an
 * empty map, a condition that fails) is derived from the same data by the same rules.
 */
export class RunReader {
  readonly #info: InstanceInfo;
  readonly #history: FlowHistory;
  readonly #known = new Map<string, Known>();

  constructor(info: InstanceInfo, history: FlowHistory) {
    this.#info = info;
    this.#history = history;
  }

  steps(): readonly FlowStep[] {
    const graph = this.#history.run?.flow;
    if (graph === undefined) return [];
    return graph.steps.map((node) => {
      const { state, items } = this.#read(node, graph);
      return { name: node.name, kind: node.kind, ...state, ...(items !== undefined && { items }) };
    });
  }

  onFail(): StepState | undefined {
    const flow = this.#history.run?.flow;
    const [call] = flow === undefined ? [] : this.#history.calls(activityNames.onFail(flow.name));
    return call === undefined ? undefined : this.#ofCall(call);
  }

  item(call: RecordedCall): FlowItem {
    return {
      index: call.index ?? 0,
      ...(call.item !== undefined && { item: call.item }),
      ...this.#ofCall(call),
    };
  }

  /** Nothing of the run starts any more. */
  get #isOver(): boolean {
    return this.#info.status !== 'pending' && this.#info.status !== 'running';
  }

  #read(node: StepNode, graph: FlowGraph): Known {
    const known = this.#known.get(node.name);
    if (known !== undefined) return known;
    const read = this.#failedByItself(node, this.#derive(node, graph));
    this.#known.set(node.name, read);
    return read;
  }

  /** The run says which step it failed of; where no call of it failed, what it was to be called with could not be stored. */
  #failedByItself({ name }: StepNode, known: Known): Known {
    const { failure, endedAt } = this.#info;
    const { step } = (failure?.details ?? {}) as { readonly step?: string };
    const { status, queuedAt } = known.state;
    const isTold = status === 'failed' || status === 'running';
    if (failure === undefined || step !== name || isTold) return known;
    const state: StepState = {
      status: 'failed',
      failure: failure.cause ?? failure,
      ...(queuedAt !== undefined && { queuedAt }),
      ...(endedAt !== undefined && { endedAt }),
    };
    return known.items === undefined ? { state } : { state, items: known.items };
  }

  #derive(node: StepNode, graph: FlowGraph): Known {
    const calls = this.#history.calls(activityNames[node.kind](graph.name, node.name));
    const [generate] = this.#history.calls(activityNames.generate(graph.name, node.name));
    const hasBegun = calls.length > 0 || generate !== undefined;
    if (!hasBegun) return this.#withoutCalls(node, graph);
    if (node.kind === 'step') return this.#ofStep(calls);
    if (node.kind === 'reduce') return this.#ofReduce(node, graph, calls);
    return this.#ofItems(node, graph, { calls, generate });
  }

  #ofStep([call]: readonly RecordedCall[]): Known {
    if (call === undefined) return this.#notBegun();
    const state = this.#ofCall(call);
    return { state, output: state.output };
  }

  /** A reduce is what its last batch is; it has completed when nothing is left to fold. */
  #ofReduce(node: StepNode, graph: FlowGraph, calls: readonly RecordedCall[]): Known {
    const last = calls.at(-1);
    if (last === undefined) return this.#notBegun();
    const begun = begin(calls.map((call) => this.#ofCall(call)));
    const state = { ...this.#ofCall(last), ...begun };
    const total = this.#sourceLength(node, graph);
    const isDone = total !== undefined && (last.folds ?? 0) >= total;
    if (state.status !== 'completed' || isDone) return { state, output: state.output };
    return { state: { ...this.#open('queued'), ...begun } };
  }

  #ofItems(
    node: StepNode,
    graph: FlowGraph,
    recorded: {
      readonly calls: readonly RecordedCall[];
      readonly generate: RecordedCall | undefined;
    },
  ): Known {
    const { calls, generate } = recorded;
    const states = calls.map((call) => this.#ofCall(call));
    const generated = generate && this.#ofCall(generate);
    const total =
      node.kind === 'map'
        ? this.#sourceLength(node, graph)
        : (generated?.output as number | undefined);
    const waiting = Math.max(0, (total ?? calls.length) - calls.length);
    const items = count(states, waiting, this.#isOver);
    const all = generated === undefined ? states : [generated, ...states];
    const begun = begin(all);
    const failed = all.find(({ status }) => status === 'failed');
    if (failed !== undefined) {
      const { output: _, ...rest } = failed;
      return { state: { ...rest, ...begun }, items };
    }
    const isDone = total !== undefined && items.completed >= total;
    if (isDone) {
      const endedAt = all.reduce((last, each) => Math.max(last, each.endedAt ?? 0), 0);
      const output = states.map((state) => state.output);
      return { state: { status: 'completed', ...begun, endedAt }, items, output };
    }
    const isRunning = all.some(({ status }) => status === 'running');
    const isQueued = all.some(({ status }) => status === 'queued');
    const status = isRunning ? 'running' : isQueued || !this.#isOver ? 'queued' : 'canceled';
    return { state: { ...this.#open(status), ...begun }, items };
  }

  /** A step that has called nothing: it waits, was skipped, had nothing to do, failed, or was given up. */
  #withoutCalls(node: StepNode, graph: FlowGraph): Known {
    const byName = new Map(graph.steps.map((step) => [step.name, step]));
    const { completedEarly } = statusOf(this.#info);
    const settled = dependenciesOf(node, graph).every((name) => {
      // Whoever completes the whole flow makes nobody begin.
      if (name === completedEarly?.step) return false;
      const dependency = byName.get(name);
      const status = dependency && this.#read(dependency, graph).state.status;
      return status === 'completed' || status === 'skipped';
    });
    if (!settled) return this.#notBegun();
    try {
      if (node.when !== undefined && !holds(node.when, this.#values(node, graph))) {
        return { state: { status: 'skipped' } };
      }
      return this.#withoutItems(node, graph);
    } catch (error) {
      if (!isPerdureError(error)) throw error;
      const { name, message, code } = error;
      const failure: Failure = { name, message, code, nonRetryable: true };
      // A condition that fails ends the run in the same turn.
      return this.#isOver ? { state: { status: 'failed', failure } } : this.#notBegun();
    }
  }

  #withoutItems(node: StepNode, graph: FlowGraph): Known {
    const hasSource = node.kind === 'map' || node.kind === 'reduce';
    if (!hasSource || (node.signal !== undefined && !this.#hasSignal(node.signal))) {
      return this.#notBegun();
    }
    if (this.#sourceLength(node, graph) !== 0) return this.#notBegun();
    const output = node.kind === 'map' ? [] : node.initial;
    const items = node.kind === 'map' ? { items: count([], 0, false) } : {};
    const shown = node.kind === 'reduce' && output !== undefined ? { output } : {};
    return { state: { status: 'completed', ...shown }, ...items, output };
  }

  #hasSignal(signal: string): boolean {
    return takenSignal(statusOf(this.#info), signal) !== undefined;
  }

  /** How many items a map or reduce has; `undefined` while that is open. Throws for what is no array. */
  #sourceLength(node: StepNode, graph: FlowGraph): number | undefined {
    const over = node.over ?? [inputName];
    const [, ...keys] = over;
    const source = graph.steps.find(({ name }) => name === sourceOf(node));
    if (source === undefined) return this.#length(node, follow(this.#history.run?.input, keys));
    const { state, items, output } = this.#read(source, graph);
    if (state.status !== 'completed') return undefined;
    if (hasItems(source.kind) && keys.length === 0) return items?.completed ?? 0;
    return this.#length(node, follow(output, keys));
  }

  #length({ name, over }: StepNode, value: unknown): number {
    if (Array.isArray(value)) return value.length;
    throw notAnArray(name, showPath(over ?? [inputName]), value);
  }

  #values(node: StepNode, graph: FlowGraph): Readonly<Record<string, unknown>> {
    const names = [...node.needs, ...node.optional];
    const nodes = graph.steps.filter(({ name }) => names.includes(name));
    return Object.fromEntries([
      ...nodes.map((each) => [each.name, this.#read(each, graph).output] as const),
      [inputName, this.#history.run?.input] as const,
    ]);
  }

  #notBegun(): Known {
    return { state: this.#open('pending') };
  }

  /** A status of something that has not ended; once the run is over it was given up. */
  #open(status: StepStatus): StepState {
    if (!this.#isOver || status === 'running') return { status };
    const reason = this.#reason();
    return { status: 'canceled', ...(reason !== undefined && { reason }) };
  }

  /** Why nothing of the run starts any more, in the words that handlers are told. */
  #reason(): string | undefined {
    const { failure, cancel } = this.#info;
    const { completedEarly } = statusOf(this.#info);
    if (completedEarly !== undefined) return `completed early: ${completedEarly.step}`;
    const { step } = (failure?.details ?? {}) as { readonly step?: string };
    return step === undefined ? cancel?.reason : `sibling failed: ${step}`;
  }

  #ofCall(call: RecordedCall): StepState {
    const { queuedAt, end, withdrawn, running } = call;
    if (end !== undefined && end.kind !== 'canceled') {
      const { kind, at, ran, attempts, output, outputOmitted, failure } = end;
      return {
        status: kind,
        ...(attempts !== undefined && { attempts }),
        queuedAt,
        ...ran,
        endedAt: at,
        ...(output !== undefined && { output }),
        ...(outputOmitted === true && { outputOmitted }),
        ...(failure !== undefined && { failure }),
      };
    }
    if (running !== undefined) {
      const { attempt: attempts, worker, claimedAt: startedAt = queuedAt } = running;
      const by = worker === undefined ? {} : { worker };
      return { status: 'running', attempts, queuedAt, startedAt, ...by };
    }
    const stopped = withdrawn ?? end;
    const { endedAt } = this.#info;
    if (stopped === undefined && !this.#isOver) return { status: 'queued', queuedAt };
    const at = end?.at ?? withdrawn?.at ?? endedAt;
    const reason = stopped?.reason ?? this.#reason();
    return {
      status: 'canceled',
      queuedAt,
      ...end?.ran,
      ...(at !== undefined && { endedAt: at }),
      ...(reason !== undefined && { reason }),
    };
  }
}

/** When the first of several calls was queued and started. */
function begin(states: readonly StepState[]): Pick<StepState, 'queuedAt' | 'startedAt'> {
  let queuedAt = Infinity;
  let startedAt = Infinity;
  for (const state of states) {
    queuedAt = Math.min(queuedAt, state.queuedAt ?? queuedAt);
    startedAt = Math.min(startedAt, state.startedAt ?? startedAt);
  }
  return {
    ...(queuedAt < Infinity && { queuedAt }),
    ...(startedAt < Infinity && { startedAt }),
  };
}

function count(states: readonly StepState[], waiting: number, isOver: boolean): ItemCounts {
  const counts = { pending: 0, queued: 0, running: 0, completed: 0, failed: 0, canceled: 0 };
  for (const { status } of states) if (status !== 'skipped') counts[status] += 1;
  counts[isOver ? 'canceled' : 'pending'] += waiting;
  return counts;
}
