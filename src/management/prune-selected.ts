import type { AuditEntry, PruneResult, ScannedInstance } from '../providers/contract/management.ts';
import type { Provider } from '../providers/contract/provider.ts';
import type { CheckedPrune } from './management-options.ts';
import type { Pacer } from './pacer.ts';
import { selectInstances, type Selection } from './select-instances.ts';

/** An instance, and the conditions on its executions. */
interface PruneTarget {
  readonly instanceId: string;
  readonly incarnation?: string;
  readonly conditions: CheckedPrune;
}

/** A prune of one batch of instances. */
interface BatchPrune {
  readonly targets: readonly PruneTarget[];
  readonly dryRun: boolean;
  readonly audit: AuditEntry;
  readonly pacer: Pacer;
}

/** A prune of all selected instances. */
export interface SelectedPrune extends Omit<BatchPrune, 'targets'> {
  readonly selection: Selection;
  /** Returns `undefined` for an instance that keeps all executions. */
  readonly conditionsOf: (instance: ScannedInstance) => CheckedPrune | undefined;
  /** Maximum instances to prune. Instances without matching executions do not count. */
  readonly limit: number;
  /** Called after each batch. An error from it ends the prune. */
  readonly onStep: (result: PruneResult) => void;
}

const instancesPerBatch = 16;
// A dry run deletes nothing, so a second query would return the same executions.
const unlimited = 2 ** 31 - 1;

/** Prunes the executions of the selected instances. */
export async function pruneSelected(store: Provider, prune: SelectedPrune): Promise<void> {
  const { selection, conditionsOf, pacer, onStep } = prune;
  let remaining = prune.limit;
  if (remaining === 0) return;
  for await (const found of selectInstances(store, selection, pacer)) {
    const due = found.flatMap((instance): readonly PruneTarget[] => {
      const conditions = conditionsOf(instance);
      const { instanceId, incarnation } = instance;
      return conditions === undefined ? [] : [{ instanceId, incarnation, conditions }];
    });
    for (let from = 0; from < due.length && remaining > 0;) {
      const targets = due.slice(from, from + Math.min(instancesPerBatch, remaining));
      from += targets.length;
      const { result } = await pruneBatch(store, { ...prune, targets });
      remaining -= result.instancesProcessed;
      onStep(result);
    }
    if (remaining === 0) return;
  }
}

/** Prunes a batch completely. Returns the number of existing instances, the counts and the pruned instances. */
export async function pruneBatch(
  store: Provider,
  { targets, dryRun, audit, pacer }: BatchPrune,
): Promise<{
  readonly found: number;
  readonly result: PruneResult;
  readonly prunedIds: ReadonlySet<string>;
}> {
  const pruned = new Set<string>();
  let found = 0;
  let result = nothingPruned;
  for (let due = targets, isFirst = true; due.length > 0; isFirst = false) {
    const max = dryRun ? unlimited : Math.max(1, Math.floor(pacer.size / due.length));
    const limits = { max, ...(dryRun ? { dryRun } : { audit }) };
    const prunes = due.map(({ conditions, ...instance }) => ({
      ...instance,
      ...conditions,
      ...limits,
    }));
    const results = await pacer.step(() => store.pruneExecutionsAtomic(prunes));
    let rows = 0;
    let executions = 0;
    for (const [index, each] of results.entries()) {
      if (isFirst && each.found) found += 1;
      if (each.executionsDeleted > 0) pruned.add(due[index]?.instanceId ?? '');
      executions += each.executionsDeleted;
      rows += each.executionsDeleted + each.eventsDeleted + each.queueMessagesDeleted;
      result = addPruned(result, { ...each, instancesProcessed: 0 });
    }
    if (!dryRun) pacer.adjust(executions, rows);
    due = dryRun ? [] : due.filter((_, index) => results[index]?.left === true);
  }
  return { found, result: { ...result, instancesProcessed: pruned.size }, prunedIds: pruned };
}

export const nothingPruned: PruneResult = {
  instancesProcessed: 0,
  executionsDeleted: 0,
  eventsDeleted: 0,
};

export function addPruned(a: PruneResult, b: PruneResult): PruneResult {
  return {
    instancesProcessed: a.instancesProcessed + b.instancesProcessed,
    executionsDeleted: a.executionsDeleted + b.executionsDeleted,
    eventsDeleted: a.eventsDeleted + b.eventsDeleted,
  };
}
