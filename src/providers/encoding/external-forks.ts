import type { ExternalPayloadStore } from '../../model/encoding/external-store.ts';
import { isPerdureError, type PerdureError } from '../../model/failures/errors.ts';
import type { Provider } from '../contract/provider.ts';
import type { ForkResult, InstanceFork } from '../contract/reruns.ts';
import { putExternal } from './external-calls.ts';
import { forkKey, ownerOf } from './external-keys.ts';
import { externalKeysIn } from './external-references.ts';

const pageSize = 1_000;

/**
 * Creates forks. First marks the instances whose external payloads each fork refers to: the store copies events with their
 * references, so the payloads must outlive their instance. A mark of a fork that was not created is deleted by a sweep. A
 * fork that cannot be marked is not created, and the others are.
 */
export async function forkWithMarks(
  store: ExternalPayloadStore,
  inner: Provider,
  forks: readonly InstanceFork[],
): Promise<readonly ForkResult[]> {
  const errors: (PerdureError | undefined)[] = [];
  for (const fork of forks) errors.push(await markFork(store, inner, fork));
  const marked = forks.filter((_, index) => errors[index] === undefined);
  const isCall = marked.length > 0 || forks.length === 0;
  const results = isCall ? [...(await inner.forkInstances(marked))] : [];
  return errors.map((error) =>
    error === undefined ? (results.shift() as ForkResult) : { kind: 'refused', error },
  );
}

/** Marks the owners of the payloads of a fork. Returns the error if the external store failed. */
async function markFork(
  store: ExternalPayloadStore,
  inner: Provider,
  { instanceId: forkId, source, start }: InstanceFork,
): Promise<PerdureError | undefined> {
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
  const bytes = new TextEncoder().encode(forkId);
  try {
    for (const owner of owners) {
      await putExternal(store, { key: forkKey(owner, forkId), bytes, what: 'the mark of a fork' });
    }
    return undefined;
  } catch (error) {
    if (isPerdureError(error)) return error;
    throw error;
  }
}

/** The instances to whose payloads a stored text refers. */
function ownersIn(text: string): readonly string[] {
  return externalKeysIn(text).flatMap((key) => ownerOf(key) ?? []);
}
