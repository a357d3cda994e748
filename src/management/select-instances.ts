import type { InstanceStatus } from '../model/status.ts';
import type { InstanceRecord } from '../providers/contract/instances.ts';
import type { ScannedInstance } from '../providers/contract/management.ts';
import type { Provider } from '../providers/contract/provider.ts';
import type { Tags } from '../model/values/tags.ts';
import { hasTags, matchNames } from './instance-filter.ts';
import type { Pacer } from './pacer.ts';

/** Conditions on instances, combined with AND. An absent condition matches all. */
export interface Selection {
  readonly instanceIds?: readonly string[];
  readonly statuses: readonly InstanceStatus[];
  readonly endedBefore?: number;
  readonly names?: readonly string[];
  readonly tags?: Tags;
  /** Evaluated last, for each instance that matches the other conditions. */
  readonly accepts?: (instance: ScannedInstance) => boolean;
  readonly rootsOnly: boolean;
  readonly withFinishedExecutions: boolean;
  /** Allows the scan to end at instances that were created at or after this time. */
  readonly createdBefore?: number;
}

const maxIdsPerQuery = 500;
const maxRowsPerQuery = 1_000;

/** Yields the selected instances in pages: by id if ids are given, else by a scan from the oldest on. */
export async function* selectInstances(
  store: Provider,
  selection: Selection,
  pacer: Pacer,
): AsyncGenerator<readonly ScannedInstance[]> {
  const matchesName = matchNames(selection.names);
  const matches = (instance: ScannedInstance): boolean =>
    matchesName(instance.name) &&
    hasTags(instance.tags, selection.tags) &&
    selection.accepts?.(instance) !== false;
  const found =
    selection.instanceIds === undefined
      ? scan(store, selection, pacer)
      : lookUp(store, { ...selection, instanceIds: selection.instanceIds }, pacer);
  for await (const instances of found) yield instances.filter(matches);
}

async function* scan(
  store: Provider,
  selection: Selection,
  pacer: Pacer,
): AsyncGenerator<readonly ScannedInstance[]> {
  const { statuses, endedBefore, rootsOnly, withFinishedExecutions, createdBefore } = selection;
  const conditions = {
    maxScanned: maxRowsPerQuery,
    statuses,
    ...(endedBefore !== undefined && { endedBefore }),
    rootsOnly,
    withFinishedExecutions,
    ...(createdBefore !== undefined && { createdBefore }),
  };
  for (let nextKey: number | null = 0; nextKey !== null;) {
    const afterKey: number = nextKey;
    const page = await pacer.step(() => store.scanInstances({ ...conditions, afterKey }));
    yield page.instances;
    nextKey = page.nextKey;
  }
}

async function* lookUp(
  store: Provider,
  selection: Selection & { readonly instanceIds: readonly string[] },
  pacer: Pacer,
): AsyncGenerator<readonly ScannedInstance[]> {
  const { instanceIds } = selection;
  for (let from = 0; from < instanceIds.length; from += maxIdsPerQuery) {
    const ids = instanceIds.slice(from, from + maxIdsPerQuery);
    const records = await pacer.step(() => store.getInstances(ids));
    yield records.filter(
      (record) => record !== undefined && matchesSelection(record, selection),
    ) as InstanceRecord[];
  }
}

/** Evaluates the conditions that the store evaluates in a scan. */
function matchesSelection(record: InstanceRecord, selection: Selection): boolean {
  const { statuses, endedBefore, rootsOnly, withFinishedExecutions } = selection;
  if (!statuses.includes(record.status)) return false;
  if (endedBefore !== undefined && (record.endedAt === null || record.endedAt >= endedBefore)) {
    return false;
  }
  if (rootsOnly && record.parentInstanceId !== null) return false;
  return !withFinishedExecutions || record.executionId > 1;
}
