import './require-node.ts';

// Defining flows
export { flow } from './flows/definition/flow.ts';
export type { Flow } from './flows/definition/flow.ts';
export type { FlowDefinition, FlowOptions } from './flows/definition/flow-definition.ts';
export type { StepContext } from './flows/interpreter/step-context.ts';
export type { GeneratorContext } from './flows/interpreter/generator-activity.ts';
export type { FlowGraph, StepKind, StepNode } from './flows/definition/graph.ts';
export type { FlowFailure } from './flows/definition/flow-errors.ts';

// Conditions
export {
  and,
  contains,
  eq,
  exists,
  gt,
  gte,
  lt,
  lte,
  ne,
  not,
  oneOf,
  or,
} from './flows/definition/condition.ts';
export type { Condition } from './flows/definition/condition.ts';
export type { Reference } from './flows/definition/reference.ts';

// Runs: signals, and the state of each step
export { signalFlow } from './flows/interpreter/signals.ts';
export type { SignalArguments, SignalOptions } from './flows/interpreter/signals.ts';
export { readFlowItems, readFlowRun } from './flows/reading/flow-run.ts';
export { readFlowGraph } from './flows/reading/flow-graph.ts';
export type { FlowGraphEdge, FlowGraphNode, FlowRunGraph } from './flows/reading/flow-graph.ts';
export type { FlowItemPage, ItemPageOptions } from './flows/reading/flow-run.ts';
export type {
  FlowItem,
  FlowRun,
  FlowStep,
  ItemCounts,
  StepState,
  StepStatus,
} from './flows/reading/flow-run.ts';
export { readFlowWaits, type StepWait } from './flows/reading/flow-waits.ts';
