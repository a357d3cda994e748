import type { ManagementStore } from '../providers/management.ts';
import type { Pacer } from './pacer.ts';

const rowsAtOnce = 500;

/**
 * Takes away what deletions have only hidden, in short steps, until nothing is left, or as much went as the caller has
 * hidden at most: who deletes little must not wait until what others deleted is gone.
 */
export async function reclaim(
  store: Pick<ManagementStore, 'reclaimDeleted'>,
  pacer: Pacer,
  hiddenRows = Infinity,
): Promise<void> {
  for (let taken = 0; taken < hiddenRows;) {
    const { rows, left } = await pacer.step(() => store.reclaimDeleted(rowsAtOnce));
    if (!left) return;
    taken += rows;
  }
}
