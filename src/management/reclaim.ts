import { PerdureError } from '../model/failures/errors.ts';
import type { ManagementStore } from '../providers/contract/management.ts';
import type { Pacer } from './pacer.ts';

const rowsAtOnce = 500;

/**
 * Takes away what deletions have only hidden, in short steps, until nothing is left. Few events are never hidden, so
 * who deleted no more does one step, and does not wait until what others have hidden is gone.
 *
 * A store in trouble is no reason to report a deletion that was committed as failed: workers reclaim what is left.
 */
export async function reclaim(
  store: Pick<ManagementStore, 'reclaimDeleted'>,
  pacer: Pacer,
  eventsDeleted = Infinity,
): Promise<void> {
  try {
    for (let left = true; left;) {
      ({ left } = await pacer.step(() => store.reclaimDeleted(rowsAtOnce)));
      if (eventsDeleted <= rowsAtOnce) return;
    }
  } catch (error) {
    if (!PerdureError.is(error)) throw error;
  }
}
