import { PerdureError } from '../../index.ts';
import { holds } from '../definition/condition.ts';
import { inputName, type StepNode } from '../definition/graph.ts';
import { follow, showPath } from '../definition/reference.ts';

/**
 * The values that a step can read.
 *
 * The functions of this module decide about steps without running a handler. The interpreter applies them while a
 * flow runs, and `RunReader` applies them to a recorded history, so both derive the same state. A step passes through
 * them in this order: its dependencies settle, its condition is evaluated, its signal arrives, its items are read.
 */
export interface FlowValues {
  readonly input: unknown;
  /** Returns the output of a settled step: `undefined` if it was skipped. */
  outputOf(step: string): unknown;
}

/** Returns the outputs of `needs` and `optional`, by step name. */
export function dependencyOutputs(
  { needs, optional }: StepNode,
  values: FlowValues,
): Readonly<Record<string, unknown>> {
  return Object.fromEntries([...needs, ...optional].map((name) => [name, values.outputOf(name)]));
}

/** Whether the condition of a step skips it. Throws `CONDITION_FAILED` if it cannot be evaluated. */
export function isSkipped(node: StepNode, values: FlowValues): boolean {
  if (node.when === undefined) return false;
  return !holds(node.when, { ...dependencyOutputs(node, values), [inputName]: values.input });
}

/** Returns the array of a map or reduce. Throws `INVALID_INPUT` if the value is not an array. */
export function sourceItems({ name, over }: StepNode, values: FlowValues): readonly unknown[] {
  const path = over ?? [inputName];
  const [source, ...keys] = path;
  const value = follow(source === inputName ? values.input : values.outputOf(source), keys);
  if (Array.isArray(value)) return value;
  const found = value === undefined ? 'missing' : value === null ? 'null' : typeof value;
  throw new PerdureError(
    'INVALID_INPUT',
    `Step ${JSON.stringify(name)} reads its items from \`${showPath(path)}\`, which must be an array: it is ${found}. Return an empty array if there are no items.`,
  );
}

/** The reasons with which the other steps of a flow are canceled. */
export const cancelReasons = {
  completedEarly: (step: string) => `completed early: ${step}`,
  siblingFailed: (step: string) => `sibling failed: ${step}`,
} as const;
