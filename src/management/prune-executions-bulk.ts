import { readFields } from '../model/option-fields.ts';
import type { InstanceStatus } from '../model/status.ts';
import type { PruneResult } from '../providers/contract/management.ts';
import type { Provider } from '../providers/contract/provider.ts';
import { newAuditEntry } from './audit-entry.ts';
import { addPruned, nothingPruned } from './counts.ts';
import { assertMeant, readInstanceFilter, type InstanceFilter } from './instance-filter.ts';
import { checkCallback, readActor, readFlag, readSignal } from './option-values.ts';
import { Pacer } from './pacer.ts';
import { pruneShape, readPruneConditions } from './prune-conditions.ts';
import type { PruneOptions } from './prune-executions.ts';
import { pruneSelected } from './prune-selected.ts';
import { reclaim } from './reclaim.ts';

/** How to prune the executions of many instances. */
export interface BulkPruneOptions extends PruneOptions {
  /** Confirms that neither the filter nor `keepLast` and `completedBefore` set a condition. Default false. */
  readonly all?: boolean | undefined;
  /** Also finished executions of instances that are not over: eternal runs. Default false. */
  readonly includeRunning?: boolean | undefined;
  /** Called after each batch, with the sums so far. */
  readonly onProgress?: ((progress: PruneResult) => void) | undefined;
}

const optionKeys = [
  'all',
  'keepLast',
  'completedBefore',
  'includeRunning',
  'dryRun',
  'actor',
  'onProgress',
  'signal',
] as const;

const runningStatuses: readonly InstanceStatus[] = ['pending', 'running', 'canceling'];

/** Deletes finished executions of the instances that a filter selects, in small transactions. */
export async function pruneExecutionsBulk(
  store: Provider,
  filter?: InstanceFilter,
  options?: BulkPruneOptions,
): Promise<PruneResult> {
  const { limit, shape, statuses, ...selection } = readInstanceFilter(filter);
  const given = readFields(options, 'pruneExecutionsBulk()', optionKeys);
  const conditions = readPruneConditions(given);
  const { keepLast, completedBefore } = given;
  assertMeant(filter, given.all, { keepLast, completedBefore });
  const includeRunning = readFlag('includeRunning', given.includeRunning);
  checkCallback('onProgress', given.onProgress);
  const dryRun = readFlag('dryRun', given.dryRun);
  const pacer = new Pacer(readSignal(given.signal));
  let sum = nothingPruned;
  await pruneSelected(store, {
    selection: {
      ...selection,
      statuses: includeRunning ? [...statuses, ...runningStatuses] : statuses,
      rootsOnly: false,
      withFinishedExecutions: true,
    },
    conditionsOf: () => conditions,
    limit,
    dryRun,
    audit: newAuditEntry('pruneBulk', readActor(given.actor), {
      ...shape,
      ...pruneShape(conditions),
      ...(includeRunning && { includeRunning }),
    }),
    pacer,
    onStep: (result) => {
      sum = addPruned(sum, result);
      options?.onProgress?.(sum);
    },
  });
  if (!dryRun && sum.executionsDeleted > 0) await reclaim(store, pacer);
  return sum;
}
