import type { AuditEntry, PruneResult, ScannedInstance } from '../providers/contract/management.ts';
import type { Provider } from '../providers/contract/provider.ts';
import type { CheckedPrune } from './management-options.ts';
import type { Pacer } from './pacer.ts';
import { selectInstances, type Selection } from './select-instances.ts';

/** An instance, and which of its executions go. */
interface PruneTarget {
  readonly instanceId: string;
  readonly incarnation?: string;
  readonly conditions: CheckedPrune;
}

/** A prune of some instances. */
interface BatchPrune {
  readonly targets: readonly PruneTarget[];
  readonly dryRun: boolean;
  readonly audit: AuditEntry;
  readonly pacer: Pacer;
}

/** A prune of all instances that are selected. */
export interface SelectedPrune extends Omit<BatchPrune, 'targets'> {
  readonly selection: Selection;
  /** `undefined`: this one keeps all it has. */
  readonly conditionsOf: (instance: ScannedInstance) => CheckedPrune | undefined;
  /** Instances that may lose executions; those that lose none do not count. */
  readonly limit: number;
  /** After each batch; what it throws ends the prune. */
  readonly onStep: (result: PruneResult) => void;
}

const instancesAtOnce = 16;
// A dry run changes nothing, so it cannot come back for the rest.
const unbounded = 2 ** 31 - 1;

/** Prunes the executions of the instances that are selected. */
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
      const targets = due.slice(from, from + Math.min(instancesAtOnce, remaining));
      from += targets.length;
      const { result } = await pruneBatch(store, { ...prune, targets });
      remaining -= result.instancesProcessed;
      onStep(result);
    }
    if (remaining === 0) return;
  }
}

/** Prunes some instances until nothing is left to prune; counts those that were found and those that lost executions. */
export async function pruneBatch(
  store: Provider,
  { targets, dryRun, audit, pacer }: BatchPrune,
): Promise<{ readonly found: number; readonly result: PruneResult }> {
  const touched = new Set<string>();
  let found = 0;
  let result = nothingPruned;
  for (let due = targets, isFirst = true; due.length > 0; isFirst = false) {
    const max = dryRun ? unbounded : Math.max(1, Math.floor(pacer.size / due.length));
    const how = { max, ...(dryRun ? { dryRun } : { audit }) };
    const prunes = due.map(({ conditions, ...instance }) => ({
      ...instance,
      ...conditions,
      ...how,
    }));
    const answers = await pacer.step(() => store.pruneExecutionsAtomic(prunes));
    let rows = 0;
    let executions = 0;
    for (const [index, answer] of answers.entries()) {
      if (isFirst && answer.found) found += 1;
      if (answer.executionsDeleted > 0) touched.add(due[index]?.instanceId ?? '');
      executions += answer.executionsDeleted;
      rows += answer.executionsDeleted + answer.eventsDeleted + answer.queueMessagesDeleted;
      result = addPruned(result, { ...answer, instancesProcessed: 0 });
    }
    if (!dryRun) pacer.weigh(executions, rows);
    due = dryRun ? [] : due.filter((_, index) => answers[index]?.left === true);
  }
  return { found, result: { ...result, instancesProcessed: touched.size } };
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
