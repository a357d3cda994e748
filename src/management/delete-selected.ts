import type {
  AuditEntry,
  DeleteInstanceResult,
  ScannedInstance,
} from '../providers/contract/management.ts';
import type { Provider } from '../providers/contract/provider.ts';
import { readInstanceTrees, type InstanceTree } from './instance-tree.ts';
import type { Pacer } from './pacer.ts';
import { selectInstances, type Selection } from './select-instances.ts';

/** A deletion of many trees. */
export interface SelectedDeletion {
  readonly selection: Selection;
  /** Roots to delete at most; those that stay because something of them runs do not count. */
  readonly limit: number;
  readonly dryRun: boolean;
  readonly audit: AuditEntry;
  readonly pacer: Pacer;
  /** After each transaction; what it throws ends the deletion. */
  readonly onStep: (step: DeletionStep) => void;
}

/** What one transaction did. */
interface DeletionStep {
  readonly counts: DeleteInstanceResult;
  /** Roots that were looked at: the first of those given. */
  readonly rootsTaken: number;
  readonly rootsDeleted: number;
  /** Roots that stay because they, or something below them, run. */
  readonly rootsSkipped: number;
}

// Small roots before large trees say nothing of these: about 6 ms on SQLite, unless a single tree is larger.
const instancesPerStep = 1_000;

/** Deletes the trees of the roots that are selected, some in each transaction. */
export async function deleteSelected(store: Provider, deletion: SelectedDeletion): Promise<void> {
  const { selection, pacer, onStep } = deletion;
  let remaining = deletion.limit;
  if (remaining === 0) return;
  for await (const roots of selectInstances(store, selection, pacer)) {
    for (let from = 0; from < roots.length && remaining > 0;) {
      const batch = roots.slice(from, from + Math.min(pacer.size, remaining));
      const step = await pacer.step(() => deleteTrees(store, batch, deletion));
      from += step.rootsTaken;
      pacer.weigh(step.rootsTaken, rowsOf(step.counts));
      remaining -= step.rootsDeleted;
      onStep(step);
    }
    if (remaining === 0) return;
  }
}

/** Deletes the trees of as many of the roots, from the first on, as one transaction should hold. */
async function deleteTrees(
  store: Provider,
  roots: readonly ScannedInstance[],
  { dryRun, audit }: SelectedDeletion,
): Promise<DeletionStep> {
  const trees = takeFitting(
    await readInstanceTrees(
      store,
      roots.map(({ instanceId }) => instanceId),
    ),
  );
  const results = await store.deleteInstancesAtomic(
    trees.map(({ allIds }, index) => ({
      instanceIds: allIds,
      ...rootOf(roots[index]),
      force: false,
      ...(dryRun ? { dryRun } : { audit }),
    })),
  );
  let counts = nothingDeleted;
  let rootsDeleted = 0;
  let rootsSkipped = 0;
  for (const result of results) {
    if (result.kind === 'deleted') {
      counts = addDeleted(counts, result.counts);
      if (result.counts.instancesDeleted > 0) rootsDeleted += 1;
    } else if (result.kind !== 'replaced') {
      // An orphan is a child that was born just now: something of this tree runs.
      rootsSkipped += 1;
    }
  }
  return { counts, rootsTaken: trees.length, rootsDeleted, rootsSkipped };
}

function takeFitting(trees: readonly InstanceTree[]): readonly InstanceTree[] {
  let instances = 0;
  const tooMany = trees.findIndex(({ size }, index) => {
    instances += size;
    return index > 0 && instances > instancesPerStep;
  });
  return tooMany === -1 ? trees : trees.slice(0, tooMany);
}

function rootOf(root: ScannedInstance | undefined): { rootIncarnation?: string } {
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
