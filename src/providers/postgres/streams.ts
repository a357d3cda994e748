import type { StreamStore } from '../streams.ts';
import type { Store } from './store.ts';

/** The streams of jobs. */
export function createStreamStore(store: Store): StreamStore {
  const unbuilt = async (): Promise<never> => {
    store.assertOpen('streams');
    throw new Error('Not built yet.');
  };
  return { appendChunks: unbuilt, readChunks: unbuilt };
}
