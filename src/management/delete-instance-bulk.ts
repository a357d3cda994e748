import { readFields } from '../model/option-fields.ts';
import type { DeleteInstanceResult } from '../providers/contract/management.ts';
import type { Provider } from '../providers/contract/provider.ts';
import { newAuditEntry } from './audit-entry.ts';
import { addDeleted, nothingDeleted } from './counts.ts';
import { deleteSelected } from './delete-selected.ts';
import { assertMeant, readInstanceFilter, type InstanceFilter } from './instance-filter.ts';
import { checkCallback, readActor, readFlag, readSignal } from './option-values.ts';
import { Pacer } from './pacer.ts';
import { reclaim } from './reclaim.ts';

/** How far a bulk deletion has come. */
export interface DeleteProgress extends DeleteInstanceResult {
  /** Trees that went. */
  readonly rootsDeleted: number;
  /** Trees that stay because something of them runs. */
  readonly rootsSkipped: number;
}

/** How to delete many instances. */
export interface BulkDeleteOptions {
  /** Confirms a filter without any condition, which selects every instance. Default false. */
  readonly all?: boolean | undefined;
  /** Count what would go, and change nothing. */
  readonly dryRun?: boolean | undefined;
  /** Who asks, for the audit. */
  readonly actor?: string | undefined;
  /** Called after each transaction, with the sums so far. */
  readonly onProgress?: ((progress: DeleteProgress) => void) | undefined;
  /** Stops between two transactions; the call rejects with the signal's reason, and what went is gone. */
  readonly signal?: AbortSignal | undefined;
}

const optionKeys = ['all', 'dryRun', 'actor', 'onProgress', 'signal'] as const;

/** Deletes the trees of all terminal roots that a filter selects, in small transactions. */
export async function deleteInstanceBulk(
  store: Provider,
  filter?: InstanceFilter,
  options?: BulkDeleteOptions,
): Promise<DeleteInstanceResult> {
  const { limit, shape, ...selection } = readInstanceFilter(filter);
  const given = readFields(options, 'deleteInstanceBulk()', optionKeys);
  assertMeant(filter, given.all);
  const dryRun = readFlag('dryRun', given.dryRun);
  checkCallback('onProgress', given.onProgress);
  const pacer = new Pacer(readSignal(given.signal));
  let sum: DeleteProgress = { ...nothingDeleted, rootsDeleted: 0, rootsSkipped: 0 };
  await deleteSelected(store, {
    selection: { ...selection, rootsOnly: true, withFinishedExecutions: false },
    limit,
    dryRun,
    audit: newAuditEntry('deleteBulk', readActor(given.actor), shape),
    pacer,
    onStep: ({ counts, rootsDeleted, rootsSkipped }) => {
      sum = {
        ...addDeleted(sum, counts),
        rootsDeleted: sum.rootsDeleted + rootsDeleted,
        rootsSkipped: sum.rootsSkipped + rootsSkipped,
      };
      options?.onProgress?.(sum);
    },
  });
  if (!dryRun && sum.rootsDeleted > 0) await reclaim(store, pacer);
  return addDeleted(nothingDeleted, sum);
}
