import './require-node.ts';

// Defining flows
export { flow } from './flows/definition/flow.ts';
export type { Flow } from './flows/definition/flow.ts';
export type { FlowDefinition } from './flows/definition/flow-definition.ts';
export type { StepContext } from './flows/interpreter/step-context.ts';
export type { GeneratorContext } from './flows/interpreter/generator-activity.ts';
export type { FlowGraph, StepKind, StepNode } from './flows/definition/graph.ts';
export type { FlowFailure } from './flows/reading/flow-failure.ts';

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

// Signals, and the state of a run
export { signalFlow } from './flows/interpreter/signal-flow.ts';
export type { SignalArguments, SignalOptions } from './flows/interpreter/signal-flow.ts';
export { readFlowItems, readFlowRun } from './flows/reading/read-flow-run.ts';
export type { FlowItemPage, ItemPageOptions } from './flows/reading/read-flow-run.ts';
export type {
  FlowItem,
  FlowRun,
  FlowStep,
  ItemCounts,
  StepState,
  StepStatus,
} from './flows/reading/flow-run.ts';
