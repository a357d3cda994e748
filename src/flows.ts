import './require-node.ts';

// Defining flows
export { flow } from './flows/flow.ts';
export type { Flow } from './flows/flow.ts';
export type { FlowDefinition } from './flows/flow-definition.ts';
export type { StepContext } from './flows/step-context.ts';
export type { GeneratorContext } from './flows/generator-activity.ts';
export type { FlowGraph, StepKind, StepNode } from './flows/graph.ts';
export type { FlowFailure } from './flows/flow-failure.ts';

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
} from './flows/condition.ts';
export type { Condition } from './flows/condition.ts';
export type { Reference } from './flows/reference.ts';

// Runs: signals, and the state of each step
export { signalFlow } from './flows/signal-flow.ts';
export type { SignalArguments, SignalOptions } from './flows/signal-flow.ts';
export { readFlowItems, readFlowRun } from './flows/read-flow-run.ts';
export type { FlowItemPage, ItemPageOptions } from './flows/read-flow-run.ts';
export type {
  FlowItem,
  FlowRun,
  FlowStep,
  ItemCounts,
  StepState,
  StepStatus,
} from './flows/flow-run.ts';
