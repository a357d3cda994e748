import type { StateStore } from '../../contract/state.ts';
import type { StoreAccess } from '../batches/store-access.ts';
import type { InstanceState } from '../tables/instance-state.ts';

/** Reads state and custom status for clients. */
export function createStateStore(
  store: StoreAccess & { readonly instanceState: InstanceState },
): StateStore {
  return {
    readStates: (requests) =>
      store.read('readStates', (tx) => store.instanceState.read(tx, requests)),
  };
}
