import { readExternalKey } from '../../model/encoding/envelope.ts';
import type { ExternalPayloadStore } from '../../model/encoding/external-store.ts';
import type { Provider } from '../contract/provider.ts';
import type { InstanceFork } from '../contract/reruns.ts';
import { forkKey, parseKey } from './external-keys.ts';

const pageSize = 1_000;
const referencePattern = /~perdure2:[\w./-]+/g;

/**
 * Marks the instances whose external payloads a fork refers to. The store copies events with their references, so the payloads
 * must outlive their instance. A mark of a fork that was not created is deleted by a sweep.
 */
export async function markForks(
  store: ExternalPayloadStore,
  inner: Provider,
  forks: readonly InstanceFork[],
): Promise<void> {
  for (const { instanceId: forkId, source, start } of forks) {
    const owners = new Set<string>();
    const length = start.kept?.length ?? 0;
    for (let after = 0; after < length; after += pageSize) {
      const { instanceId, executionId } = source;
      const limit = Math.min(pageSize, length - after);
      const events = await inner.readInstanceHistory({ instanceId, executionId, after, limit });
      for (const { data, payload } of events) {
        for (const owner of ownersIn(`${data} ${payload ?? ''}`)) owners.add(owner);
      }
    }
    for (const owner of owners) await store.put(forkKey(owner, forkId), new Uint8Array());
  }
}

/** The instances to whose payloads a stored text refers. */
function ownersIn(text: string): readonly string[] {
  return [...text.matchAll(referencePattern)].flatMap(([reference]) => {
    const key = readExternalKey(reference);
    return (key === undefined ? undefined : parseKey(key)?.instanceId) ?? [];
  });
}
