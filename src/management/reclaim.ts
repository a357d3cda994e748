import type { ManagementStore } from '../providers/management.ts';
import type { Pacer } from './pacer.ts';

const rowsAtOnce = 500;

/** Takes away what deletions have only hidden, in short steps, until nothing is left. */
export async function reclaim(
  store: Pick<ManagementStore, 'reclaimDeleted'>,
  pacer: Pacer,
): Promise<void> {
  for (let left = true; left;) {
    ({ left } = await pacer.step(() => store.reclaimDeleted(rowsAtOnce)));
  }
}
