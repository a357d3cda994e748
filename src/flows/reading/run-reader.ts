import { isPerdureError, type InstanceInfo } from '../../index.ts';
import { failedStep, toFailure } from '../definition/flow-errors.ts';
import {
  activityNames,
  dependenciesOf,
  hasItems,
  sourceOf,
  type FlowGraph,
  type StepNode,
} from '../definition/graph.ts';
import { isActive, statusOf, takenSignal } from '../definition/run-format.ts';
import {
  cancelReasons,
  isSkipped,
  sourceItems,
  type FlowValues,
} from '../interpreter/step-rules.ts';
import type { FlowHistory, RecordedCall } from './flow-history.ts';
import type { FlowItem, FlowStep, ItemCounts, StepState, StepStatus } from './flow-run.ts';

/** A step with the values that its dependents need. */
interface DerivedStep {
  readonly state: StepState;
  readonly items?: ItemCounts;
  /** `undefined` for a step that has not completed. */
  readonly output?: unknown;
}

/**
 * Derives the state of every step from the activity calls in a history. Decisions without a call (a skip, an empty map,
 * a condition that fails) are not recorded; they are made again with the rules of the interpreter.
 */
export class RunReader implements FlowValues {
  readonly #info: InstanceInfo;
  readonly #history: FlowHistory;
  readonly #graph: FlowGraph | undefined;
  readonly #nodes: ReadonlyMap<string, StepNode>;
  readonly #derived = new Map<string, DerivedStep>();

  constructor(info: InstanceInfo, history: FlowHistory) {
    this.#info = info;
    this.#history = history;
    this.#graph = history.run?.flow;
    this.#nodes = new Map(this.#graph?.steps.map((node) => [node.name, node]));
  }

  steps(): readonly FlowStep[] {
    return [...this.#nodes.values()].map((node) => {
      const { state, items } = this.#step(node);
      return { name: node.name, kind: node.kind, ...state, ...(items !== undefined && { items }) };
    });
  }

  onFail(): StepState | undefined {
    const [call] =
      this.#graph === undefined ? [] : this.#history.calls(activityNames.onFail(this.#graph.name));
    return call === undefined ? undefined : this.#callState(call);
  }

  item(call: RecordedCall): FlowItem {
    return {
      index: call.index ?? 0,
      ...(call.item !== undefined && { item: call.item }),
      ...this.#callState(call),
    };
  }

  get input(): unknown {
    return this.#history.run?.input;
  }

  outputOf(step: string): unknown {
    const node = this.#nodes.get(step);
    return node && this.#step(node).output;
  }

  #step(node: StepNode): DerivedStep {
    const known = this.#derived.get(node.name);
    if (known !== undefined) return known;
    const derived = this.#applyRunFailure(node, this.#derive(node));
    this.#derived.set(node.name, derived);
    return derived;
  }

  /** Marks the step that the run's failure names, if no call of it failed: its input could not be stored. */
  #applyRunFailure({ name }: StepNode, derived: DerivedStep): DerivedStep {
    const { failure, endedAt } = this.#info;
    const { status, queuedAt } = derived.state;
    if (failure === undefined || failedStep(failure) !== name) return derived;
    if (status === 'failed' || status === 'running') return derived;
    const state: StepState = {
      status: 'failed',
      failure: failure.cause ?? failure,
      ...(queuedAt !== undefined && { queuedAt }),
      ...(endedAt !== undefined && { endedAt }),
    };
    return derived.items === undefined ? { state } : { state, items: derived.items };
  }

  #derive(node: StepNode): DerivedStep {
    const flow = this.#graph?.name ?? '';
    const calls = this.#history.calls(activityNames[node.kind](flow, node.name));
    const [generate] = this.#history.calls(activityNames.generate(flow, node.name));
    if (calls.length === 0 && generate === undefined) return this.#fromRules(node);
    if (node.kind === 'step') return this.#fromCall(calls);
    if (node.kind === 'reduce') return this.#fromBatches(node, calls);
    return this.#fromItems(node, { calls, generate });
  }

  #fromCall([call]: readonly RecordedCall[]): DerivedStep {
    if (call === undefined) return this.#notStarted();
    const state = this.#callState(call);
    return { state, output: state.output };
  }

  /** A reduce has the state of its last batch. It has completed when that batch ends at the last item. */
  #fromBatches(node: StepNode, calls: readonly RecordedCall[]): DerivedStep {
    const last = calls.at(-1);
    if (last === undefined) return this.#notStarted();
    const times = earliestTimes(calls.map((call) => this.#callState(call)));
    const state = { ...this.#callState(last), ...times };
    const total = this.#sourceLength(node);
    const isDone = total !== undefined && (last.folds ?? 0) >= total;
    if (state.status !== 'completed' || isDone) return { state, output: state.output };
    return { state: { ...this.#unfinished('queued'), ...times } };
  }

  #fromItems(
    node: StepNode,
    recorded: {
      readonly calls: readonly RecordedCall[];
      readonly generate: RecordedCall | undefined;
    },
  ): DerivedStep {
    const { calls, generate } = recorded;
    const states = calls.map((call) => this.#callState(call));
    const generated = generate && this.#callState(generate);
    const total =
      node.kind === 'map' ? this.#sourceLength(node) : (generated?.output as number | undefined);
    const waiting = Math.max(0, (total ?? calls.length) - calls.length);
    const items = countItems(states, waiting, this.#isActive);
    const all = generated === undefined ? states : [generated, ...states];
    const times = earliestTimes(all);
    const failed = all.find(({ status }) => status === 'failed');
    if (failed !== undefined) {
      const { output: _, ...rest } = failed;
      return { state: { ...rest, ...times }, items };
    }
    if (total !== undefined && items.completed >= total) {
      const endedAt = all.reduce((last, each) => Math.max(last, each.endedAt ?? 0), 0);
      const output = states.map((state) => state.output);
      return { state: { status: 'completed', ...times, endedAt }, items, output };
    }
    const isRunning = all.some(({ status }) => status === 'running');
    const isQueued = all.some(({ status }) => status === 'queued');
    const status = isRunning ? 'running' : isQueued || this.#isActive ? 'queued' : 'canceled';
    return { state: { ...this.#unfinished(status), ...times }, items };
  }

  /** Derives a step without calls: it waits, was skipped, had no items, failed, or was canceled. */
  #fromRules(node: StepNode): DerivedStep {
    if (!this.#hasSettledDependencies(node)) return this.#notStarted();
    try {
      if (isSkipped(node, this)) return { state: { status: 'skipped' } };
      const isEmpty = this.#hasSignal(node) && this.#sourceLength(node) === 0;
      if (!isEmpty) return this.#notStarted();
    } catch (error) {
      if (!isPerdureError(error)) throw error;
      // The interpreter fails the run in the same turn.
      return this.#isActive
        ? this.#notStarted()
        : { state: { status: 'failed', failure: toFailure(error) } };
    }
    if (node.kind === 'map') {
      return { state: { status: 'completed' }, items: countItems([], 0, true), output: [] };
    }
    const { initial } = node;
    const shown = initial === undefined ? {} : { output: initial };
    return { state: { status: 'completed', ...shown }, output: initial };
  }

  #hasSettledDependencies(node: StepNode): boolean {
    if (this.#graph === undefined) return false;
    const { completedEarly } = statusOf(this.#info);
    return dependenciesOf(node, this.#graph).every((name) => {
      // The step that completed the whole flow never settles for its dependents.
      if (name === completedEarly?.step) return false;
      const dependency = this.#nodes.get(name);
      const status = dependency && this.#step(dependency).state.status;
      return status === 'completed' || status === 'skipped';
    });
  }

  #hasSignal({ signal }: StepNode): boolean {
    return signal === undefined || takenSignal(statusOf(this.#info), signal) !== undefined;
  }

  /**
   * Returns the number of items of a map or reduce; `undefined` while it is unknown, and for other kinds. Throws
   * `INVALID_INPUT` if its source is not an array.
   */
  #sourceLength(node: StepNode): number | undefined {
    if (node.kind !== 'map' && node.kind !== 'reduce') return undefined;
    const source = this.#nodes.get(sourceOf(node) ?? '');
    if (source !== undefined) {
      const { state, items } = this.#step(source);
      if (state.status !== 'completed') return undefined;
      // The outputs of items are not kept, so they are counted.
      if (hasItems(source.kind) && node.over?.length === 1) return items?.completed ?? 0;
    }
    return sourceItems(node, this).length;
  }

  /** Whether the run can still start steps. */
  get #isActive(): boolean {
    return isActive(this.#info.status);
  }

  #notStarted(): DerivedStep {
    return { state: this.#unfinished('pending') };
  }

  /** The state of a step that has not ended: canceled if the run can no longer start it. */
  #unfinished(status: StepStatus): StepState {
    if (this.#isActive || status === 'running') return { status };
    const reason = this.#cancelReason();
    return { status: 'canceled', ...(reason !== undefined && { reason }) };
  }

  /** The reason that running handlers receive. */
  #cancelReason(): string | undefined {
    const { failure, cancel } = this.#info;
    const { completedEarly } = statusOf(this.#info);
    if (completedEarly !== undefined) return cancelReasons.completedEarly(completedEarly.step);
    const step = failedStep(failure);
    return step === undefined ? cancel?.reason : cancelReasons.siblingFailed(step);
  }

  #callState(call: RecordedCall): StepState {
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
    if (stopped === undefined && this.#isActive) return { status: 'queued', queuedAt };
    const endedAt = end?.at ?? withdrawn?.at ?? this.#info.endedAt;
    const reason = stopped?.reason ?? this.#cancelReason();
    return {
      status: 'canceled',
      queuedAt,
      ...end?.ran,
      ...(endedAt !== undefined && { endedAt }),
      ...(reason !== undefined && { reason }),
    };
  }
}

/** Returns when the first of several calls was queued, and when the first one started. */
function earliestTimes(states: readonly StepState[]): Pick<StepState, 'queuedAt' | 'startedAt'> {
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

function countItems(states: readonly StepState[], waiting: number, isActive: boolean): ItemCounts {
  const counts = { pending: 0, queued: 0, running: 0, completed: 0, failed: 0, canceled: 0 };
  for (const { status } of states) if (status !== 'skipped') counts[status] += 1;
  counts[isActive ? 'pending' : 'canceled'] += waiting;
  return counts;
}
