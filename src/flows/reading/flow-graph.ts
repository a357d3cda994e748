import type { Client, InstanceStatus } from '../../index.ts';
import { pathsOf, type Expression } from '../definition/condition.ts';
import {
  inputName,
  isStreamed,
  sourceOf,
  type FlowGraph,
  type StepNode,
} from '../definition/graph.ts';
import { statusOf, takenSignal } from '../definition/run-format.ts';
import { FlowHistory } from './flow-history.ts';
import type { FlowStep, StepState } from './flow-run.ts';
import { RunReader } from './run-reader.ts';

/** A step of a run with its state, without outputs. All times are milliseconds since the epoch. */
export interface FlowGraphNode extends Omit<FlowStep, 'output' | 'outputOmitted' | 'failure'> {
  /** The name and message of its failure. */
  readonly failure?: { readonly name: string; readonly message: string };
  /** The condition under which it runs. */
  readonly when?: Expression;
  /** The signal that it waits for, and whether the run has received it. */
  readonly signal?: { readonly name: string; readonly received: boolean };
}

/** A dependency between two steps. */
export interface FlowGraphEdge {
  readonly from: string;
  readonly to: string;
  /**
   * `needs`, `optional`, `after`: as in the definition. `over`: the source of a map or reduce. `when`: a condition reads
   * the output.
   */
  readonly kind: 'needs' | 'optional' | 'after' | 'over' | 'when';
  /** The reduce folds items while its source runs. */
  readonly streamed?: true;
}

/** The graph of a flow run with the state of each step. Items are counted: `readFlowItems` returns them. */
export interface FlowRunGraph {
  readonly id: string;
  readonly flow: string;
  readonly status: InstanceStatus;
  readonly startedAt?: number;
  readonly endedAt?: number;
  /** In definition order. Empty while no worker has started the run. */
  readonly nodes: readonly FlowGraphNode[];
  readonly edges: readonly FlowGraphEdge[];
  /** The steps whose output is the output of the flow: that of the first one that completed. */
  readonly output: readonly string[];
  readonly completedEarly?: { readonly step: string; readonly reason: string };
  /** The on-fail handler, if it was called. */
  readonly onFail?: Omit<StepState, 'output' | 'outputOmitted' | 'failure'>;
}

/**
 * Reads the graph of a run with the state of every step; `undefined` for an unknown id. Reads no payloads of items, so a
 * map of 100,000 items takes one pass over its events.
 */
export async function readFlowGraph(client: Client, id: string): Promise<FlowRunGraph | undefined> {
  const info = await client.get(id);
  if (info === undefined) return undefined;
  const history = await FlowHistory.readStates(client, id);
  const reader = new RunReader(info, history);
  const graph = history.run?.flow;
  const flowStatus = statusOf(info);
  const nodesByName = new Map(graph?.steps.map((node) => [node.name, node]));
  const { startedAt, endedAt, status, name: flow } = info;
  const onFail = reader.onFail();
  return {
    id,
    flow,
    status,
    ...(startedAt !== undefined && { startedAt }),
    ...(endedAt !== undefined && { endedAt }),
    nodes: reader.steps().map((step) => {
      const node = nodesByName.get(step.name);
      return {
        ...withoutOutput(step),
        ...failureOf(step),
        ...(node?.when !== undefined && { when: node.when }),
        ...(node?.signal !== undefined && {
          signal: {
            name: node.signal,
            received: takenSignal(flowStatus, node.signal) !== undefined,
          },
        }),
      };
    }),
    edges: graph === undefined ? [] : graph.steps.flatMap((node) => edgesOf(node, graph)),
    output: graph?.output ?? [],
    ...(flowStatus.completedEarly !== undefined && { completedEarly: flowStatus.completedEarly }),
    ...(onFail !== undefined && { onFail: withoutOutput(onFail) }),
  };
}

function edgesOf(node: StepNode, graph: FlowGraph): readonly FlowGraphEdge[] {
  const { name: to } = node;
  const source = sourceOf(node);
  const read = node.when === undefined ? [] : pathsOf(node.when).map(([step]) => step);
  const conditions = [...new Set(read)].filter((step) => step !== inputName);
  return [
    ...node.needs.map((from) => ({ from, to, kind: 'needs' as const })),
    ...node.optional.map((from) => ({ from, to, kind: 'optional' as const })),
    ...node.after.map((from) => ({ from, to, kind: 'after' as const })),
    ...(source === undefined
      ? []
      : [
          {
            from: source,
            to,
            kind: 'over' as const,
            ...(isStreamed(node, graph) && { streamed: true as const }),
          },
        ]),
    ...conditions.map((from) => ({ from, to, kind: 'when' as const })),
  ];
}

function withoutOutput<State extends StepState>(
  state: State,
): Omit<State, 'output' | 'outputOmitted' | 'failure'> {
  const { output: _, outputOmitted: __, failure: ___, ...rest } = state;
  return rest;
}

const maxMessageLength = 1_000;

function failureOf({ failure }: StepState): Pick<FlowGraphNode, 'failure'> {
  if (failure === undefined) return {};
  const { name, message } = failure;
  return { failure: { name, message: message.slice(0, maxMessageLength).toWellFormed() } };
}
