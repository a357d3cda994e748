import { isTerminal, type InstanceStatus } from '../../model/status.ts';
import type { TreeDeletion, TreeDeletionResult } from '../contract/management.ts';
import type { Flag } from './claims.ts';

/** An instance that is to be deleted. */
interface DeletionRow {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly status: InstanceStatus;
  /** Whether the `onFail` handler of a task run is queued or running. */
  readonly isHandling: Flag;
}

/** A child and its parent. */
export interface ChildLink {
  readonly instanceId: string;
  readonly parentInstanceId: string;
}

/**
 * Returns why a tree must not be deleted, or `undefined`. `instanceIds` lists children before their parents, and the root
 * last; another order is an obstacle. `rows` are the existing instances in the order of `instanceIds`, each once.
 * `children` returns their children, and is called only if the other checks pass.
 */
export function deletionObstacle(
  { instanceIds, rootIncarnation, force }: TreeDeletion,
  rows: readonly DeletionRow[],
  children: () => Iterable<ChildLink>,
): Exclude<TreeDeletionResult, { kind: 'deleted' }> | undefined {
  const root = rows.at(-1);
  const isReplaced =
    rootIncarnation !== undefined &&
    (root?.incarnation !== rootIncarnation || root.instanceId !== instanceIds.at(-1));
  if (isReplaced) return { kind: 'replaced' };
  const active = force ? undefined : rows.find(isActive);
  if (active !== undefined) {
    return { kind: 'running', instanceId: active.instanceId, status: active.status };
  }
  const positions = new Map(rows.map(({ instanceId }, index) => [instanceId, index]));
  for (const { instanceId, parentInstanceId } of children()) {
    const own = positions.get(instanceId);
    // A child that is not in the tree, or comes after its parent, would be left behind without a parent.
    const isLeftBehind = own === undefined || own > (positions.get(parentInstanceId) ?? Infinity);
    if (isLeftBehind) return { kind: 'orphan', instanceId, parentInstanceId };
  }
  return undefined;
}

function isActive({ status, isHandling }: DeletionRow): boolean {
  return !isTerminal(status) || isHandling === true || isHandling === 1;
}
