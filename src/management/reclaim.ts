import type { ManagementStore } from '../providers/management.ts';
import type { Pacer } from './pacer.ts';

const rowsAtOnce = 500;

/**
 * Takes away what deletions have only hidden, in short steps, until nothing is left. Few events are never hidden, so
 * who deleted no more does one step, and does not wait until what others have hidden is gone.
 */
export async function reclaim(
  store: Pick<ManagementStore, 'reclaimDeleted'>,
  pacer: Pacer,
  eventsDeleted = Infinity,
): Promise<void> {
  for (let left = true; left;) {
    ({ left } = await pacer.step(() => store.reclaimDeleted(rowsAtOnce)));
    if (eventsDeleted <= rowsAtOnce) return;
  }
}
