import { PerdureError } from '../../../model/failures/errors.ts';
import type { LimitStore } from '../../contract/limits.ts';
import type { StoreAccess } from '../batches/store-access.ts';

/** Limits of definitions. Not supported yet. */
export function createLimitStore(store: StoreAccess): LimitStore {
  const reject = async (operation: string): Promise<never> => {
    store.assertOpen(operation);
    throw new PerdureError('PROVIDER', `${operation}: this store does not support limits yet.`);
  };
  return {
    declareLimits: () => reject('declareLimits'),
    setLimits: () => reject('setLimits'),
    listLimits: () => reject('listLimits'),
    listLanes: () => reject('listLanes'),
  };
}
