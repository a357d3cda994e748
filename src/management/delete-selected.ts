import type {
  AuditEntry,
  DeleteInstanceResult,
  ScannedInstance,
  TreeDeletionResult,
} from '../providers/contract/management.ts';
import type { Provider } from '../providers/contract/provider.ts';
import { readInstanceTrees, type InstanceTree } from './instance-tree.ts';
import type { Pacer } from './pacer.ts';
import { selectInstances, type Selection } from './select-instances.ts';

/** A bulk deletion. */
export interface SelectedDeletion {
  readonly selection: Selection;
  /** Maximum roots to delete. Skipped roots do not count. */
  readonly limit: number;
  readonly dryRun: boolean;
  readonly audit: AuditEntry;
  readonly pacer: Pacer;
  /** Called after each transaction. An error from it ends the deletion. */
  readonly onStep: (step: DeletionStep) => void;
}

/** The result of one transaction. */
interface DeletionStep {
  readonly counts: DeleteInstanceResult;
  /** The number of processed roots, from the start of the batch. */
  readonly rootsTaken: number;
  readonly rootsDeleted: number;
  /** Roots that were skipped, because an instance of their tree has not ended. */
  readonly rootsSkipped: number;
}

// The pacer cannot foresee a large tree after small ones, so limit the instances, too: about 6 ms on SQLite.
const instancesPerStep = 1_000;

/** Deletes the trees of the selected roots, several per transaction. */
export async function deleteSelected(store: Provider, deletion: SelectedDeletion): Promise<void> {
  const { selection, pacer, onStep } = deletion;
  let remaining = deletion.limit;
  if (remaining === 0) return;
  for await (const roots of selectInstances(store, selection, pacer)) {
    for (let from = 0; from < roots.length && remaining > 0;) {
      const batch = roots.slice(from, from + Math.min(pacer.size, remaining));
      const step = await pacer.step(() => deleteTrees(store, batch, deletion));
      from += step.rootsTaken;
      pacer.adjust(step.rootsTaken, rowsOf(step.counts));
      remaining -= step.rootsDeleted;
      onStep(step);
    }
    if (remaining === 0) return;
  }
}

/**
 * Deletes trees in one transaction: the first of the roots, up to `instancesPerStep` instances. Returns a result for each
 * tree that it visited.
 */
export async function deleteTreesOf(
  store: Provider,
  roots: readonly Pick<ScannedInstance, 'instanceId' | 'incarnation'>[],
  { dryRun = false, audit }: { readonly dryRun?: boolean; readonly audit: AuditEntry },
): Promise<readonly TreeDeletionResult[]> {
  if (roots.length === 0) return [];
  const trees = limitInstances(
    await readInstanceTrees(
      store,
      roots.map(({ instanceId }) => instanceId),
    ),
  );
  return store.deleteInstancesAtomic(
    trees.map(({ allIds }, index) => ({
      instanceIds: allIds,
      ...rootOf(roots[index]),
      force: false,
      ...(dryRun ? { dryRun } : { audit }),
    })),
  );
}

async function deleteTrees(
  store: Provider,
  roots: readonly ScannedInstance[],
  deletion: SelectedDeletion,
): Promise<DeletionStep> {
  const results = await deleteTreesOf(store, roots, deletion);
  let counts = nothingDeleted;
  let rootsDeleted = 0;
  let rootsSkipped = 0;
  for (const result of results) {
    if (result.kind === 'deleted') {
      counts = addDeleted(counts, result.counts);
      if (result.counts.instancesDeleted > 0) rootsDeleted += 1;
    } else if (result.kind !== 'replaced') {
      // `orphan`: a child was started after the tree was read, so an instance of it is running.
      rootsSkipped += 1;
    }
  }
  return { counts, rootsTaken: results.length, rootsDeleted, rootsSkipped };
}

function limitInstances(trees: readonly InstanceTree[]): readonly InstanceTree[] {
  let instances = 0;
  const tooMany = trees.findIndex(({ size }, index) => {
    instances += size;
    return index > 0 && instances > instancesPerStep;
  });
  return tooMany === -1 ? trees : trees.slice(0, tooMany);
}

function rootOf(root: Pick<ScannedInstance, 'incarnation'> | undefined): {
  rootIncarnation?: string;
} {
  return root === undefined ? {} : { rootIncarnation: root.incarnation };
}

export const nothingDeleted: DeleteInstanceResult = {
  instancesDeleted: 0,
  executionsDeleted: 0,
  eventsDeleted: 0,
  queueMessagesDeleted: 0,
};

export function addDeleted(a: DeleteInstanceResult, b: DeleteInstanceResult): DeleteInstanceResult {
  return {
    instancesDeleted: a.instancesDeleted + b.instancesDeleted,
    executionsDeleted: a.executionsDeleted + b.executionsDeleted,
    eventsDeleted: a.eventsDeleted + b.eventsDeleted,
    queueMessagesDeleted: a.queueMessagesDeleted + b.queueMessagesDeleted,
  };
}

/** Returns the number of deleted rows. */
function rowsOf(deleted: DeleteInstanceResult): number {
  const { instancesDeleted, executionsDeleted, eventsDeleted, queueMessagesDeleted } = deleted;
  return instancesDeleted + executionsDeleted + eventsDeleted + queueMessagesDeleted;
}
