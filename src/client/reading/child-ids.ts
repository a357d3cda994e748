import { possibleChildIds, type RecordedChild } from '../../model/kept-history.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import { readView, toEntries } from './history-view.ts';
import { maxPageBytes } from './instance-list.ts';

const idsAtOnce = 500;

/**
 * Finds the children of an execution that was retried or forked: its copied events have the ids of earlier children.
 * Returns the ids that differ from the recorded ones, by operation.
 */
export async function findChildIds(
  provider: Provider,
  { instanceId, executionId }: { readonly instanceId: string; readonly executionId: number },
  children: readonly RecordedChild[],
): Promise<ReadonlyMap<number, string>> {
  const found = new Map<number, string>();
  if (children.length === 0) return found;
  const view = await readView(provider, instanceId, {
    executionId,
    order: 'asc',
    from: 0,
    limit: 1,
    maxScanned: 1,
    headBytes: 0,
    maxBytes: maxPageBytes,
  });
  const started = toEntries(view, instanceId, 'none')[0]?.event;
  if (started?.kind !== 'executionStarted' || started.inherited === undefined) return found;
  const execution = { instanceId, executionId, started };
  const wanted = children.flatMap((child) =>
    possibleChildIds(child, execution)
      .slice(0, -1)
      .map((id) => ({ operation: child.operation, id })),
  );
  for (let from = 0; from < wanted.length; from += idsAtOnce) {
    const part = wanted.slice(from, from + idsAtOnce);
    const versions = await provider.readVersions(part.map(({ id }) => id));
    for (const [index, { operation, id }] of part.entries()) {
      if (versions[index] !== undefined && !found.has(operation)) found.set(operation, id);
    }
  }
  return found;
}
