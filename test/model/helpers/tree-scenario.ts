import fc from 'fast-check';
import type { CancellationType } from '../../../src/model/cancel.ts';
import type { HoldPoint } from './store-boundary.ts';

/** An instance of a tree, as the input of its orchestration. */
export interface TreeNode {
  /** Its cancellation mode as a child. */
  readonly cancellation: CancellationType;
  /** An activity runs while it waits. */
  readonly works: boolean;
  /** Waits for the event `grow` before it starts its children. */
  readonly late: boolean;
  /** Continues as new once before it ends. */
  readonly again: boolean;
  readonly children: readonly TreeNode[];
}

/** An act on an instance, chosen by an index modulo the number of candidates. */
export interface TreeAct {
  readonly do:
    | 'start'
    | 'grow'
    | 'complete'
    | 'fail'
    | 'cancel'
    | 'terminate'
    | 'delete'
    | 'force'
    | 'bulk'
    | 'release';
  readonly target: number;
  /** Turns of the event loop before the next act. */
  readonly pace: number;
}

/** One run: trees that grow, end and are deleted, in some order. */
export interface TreeScenario {
  readonly roots: readonly TreeNode[];
  /** Turns of the event loop in which the trees grow before the first act. */
  readonly headStart: number;
  readonly acts: readonly TreeAct[];
  /** Points at which calls are held until their release. */
  readonly hold: readonly HoldPoint[];
  readonly fastPaths: boolean;
}

type FlatNode = Omit<TreeNode, 'children'> & { readonly parent: number };

const maxInstances = 50;

const flatNode: fc.Arbitrary<FlatNode> = fc.record({
  parent: fc.nat(1_000),
  cancellation: fc.constantFrom('request', 'wait', 'abandon'),
  works: fc.boolean(),
  late: fc.nat(9).map((n) => n === 0),
  again: fc.nat(3).map((n) => n === 0),
});

const act: fc.Arbitrary<TreeAct> = fc.record({
  do: fc.constantFrom(
    ...(['grow', 'complete', 'fail', 'cancel', 'cancel', 'terminate'] as const),
    ...(['start', 'delete', 'force', 'force', 'bulk', 'release', 'release'] as const),
  ),
  target: fc.nat(1_000),
  pace: fc.constantFrom(0, 0, 1, 2, 5, 20),
});

/** Trees of up to 50 instances, and acts on them. */
export const treeScenarios: fc.Arbitrary<TreeScenario> = fc.record({
  roots: fc.array(flatNode, { minLength: 1, maxLength: maxInstances, size: 'max' }).map(toTrees),
  headStart: fc.constantFrom(0, 20, 60, 200),
  acts: fc.array(act, { minLength: 5, maxLength: 25, size: 'max' }),
  hold: fc
    .subarray<HoldPoint>([
      'ackOrchestrationItems:before',
      'ackTurns:before',
      'requestCancel:before',
    ])
    // A tree may grow between its read and its deletion.
    .map((some): readonly HoldPoint[] => ['deleteInstancesAtomic:before', ...some]),
  fastPaths: fc.boolean(),
});

/** Each becomes a child of an earlier one, or a root. */
function toTrees(flat: readonly FlatNode[]): readonly TreeNode[] {
  const roots: TreeNode[] = [];
  const families: TreeNode[][] = [];
  for (const [index, { parent, ...node }] of flat.entries()) {
    const children: TreeNode[] = [];
    families.push(children);
    // Few roots, so that most instances have a parent.
    const place = index < 3 ? parent % (index + 1) : parent % index;
    (place === index ? roots : (families[place] ?? roots)).push({ ...node, children });
  }
  return roots;
}

/** The number of instances in trees. */
export function sizeOf(nodes: readonly TreeNode[]): number {
  return nodes.reduce((sum, { children }) => sum + 1 + sizeOf(children), 0);
}
