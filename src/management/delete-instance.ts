import { PerdureError, notFound } from '../model/failures/errors.ts';
import { checkInstanceId } from '../model/values/names.ts';
import { readFields } from '../model/option-fields.ts';
import type { InstanceStatus } from '../model/status.ts';
import type { DeleteInstanceResult } from '../providers/contract/management.ts';
import type { Provider } from '../providers/contract/provider.ts';
import { addDeleted, deleteSelected, nothingDeleted } from './delete-selected.ts';
import { assertHasCondition, readInstanceFilter, type InstanceFilter } from './instance-filter.ts';
import { readInstanceTree } from './instance-tree.ts';
import { checkCallback, newAuditEntry, readFlag, readSignal } from './management-options.ts';
import { readActor } from '../model/audit-options.ts';
import { Pacer, reclaim } from './pacer.ts';

/** Options of `deleteInstance`. */
export interface DeleteOptions {
  /**
   * Deletes the tree even if it has not ended. Running handlers are signaled, but the orchestration cannot clean up: prefer
   * to cancel it first. Default: false.
   */
  readonly force?: boolean | undefined;
  /** The actor in the audit. */
  readonly actor?: string | undefined;
}

// If children are added during the deletion, retry. After the first attempts, `force` terminates the tree first.
const attemptsBeforeTerminate = 5;
const maxAttempts = 10;

/** Deletes a root and all its descendants in one transaction. */
export async function deleteInstance(
  store: Provider,
  id: string,
  options?: DeleteOptions,
): Promise<DeleteInstanceResult> {
  const instanceId = checkInstanceId(id);
  const given = readFields(options, 'deleteInstance()', ['force', 'actor'] as const);
  const force = readFlag('force', given.force);
  const audit = newAuditEntry('delete', readActor(given.actor), { instanceIds: 1, force });
  for (let attempt = 1; attempt <= maxAttempts; attempt += 1) {
    const rootIncarnation = await checkIsRoot(store, instanceId);
    if (force && attempt > attemptsBeforeTerminate) await terminateTree(store, instanceId);
    const { allIds } = await readInstanceTree(store, instanceId);
    const tree = { instanceIds: allIds, rootIncarnation, force, audit };
    const [result] = await store.deleteInstancesAtomic([tree]);
    if (result?.kind === 'running') throw stillRunning(instanceId, result);
    if (result?.kind !== 'deleted') continue;
    if (result.counts.instancesDeleted === 0) throw notFound(instanceId);
    await reclaim(store, new Pacer(), result.counts.eventsDeleted);
    return result.counts;
  }
  throw new PerdureError(
    'INSTANCE_STILL_RUNNING',
    `Instance ${quote(instanceId)} was not deleted: it starts children faster than they can be deleted. Cancel or terminate it, then delete it.`,
  );
}

/** Returns the incarnation of a root. Throws for a child, because its parent would wait for it forever. */
async function checkIsRoot(store: Provider, instanceId: string): Promise<string> {
  const [record] = await store.getInstances([instanceId]);
  if (record === undefined) throw notFound(instanceId);
  if (record.parentInstanceId === null) return record.incarnation;
  const rootId = await findRoot(store, record.parentInstanceId);
  const advice =
    rootId === undefined
      ? 'Its ancestors form a cycle: the store is damaged.'
      : `Delete its root ${quote(rootId)}, which deletes the whole tree.`;
  throw new PerdureError(
    'CANNOT_DELETE_SUB_ORCHESTRATION',
    `Instance ${quote(instanceId)} is a child of ${quote(record.parentInstanceId)} and cannot be deleted alone. ${advice}`,
  );
}

async function findRoot(store: Provider, from: string): Promise<string | undefined> {
  const seen = new Set<string>();
  for (let id = from; !seen.has(id);) {
    seen.add(id);
    const parentId = await store.getParentId(id);
    if (parentId === null || parentId === undefined) return id;
    id = parentId;
  }
  return undefined;
}

/** Terminates a tree, so that it starts no more children. */
async function terminateTree(store: Provider, instanceId: string): Promise<void> {
  await store.terminate([{ instanceId, reason: 'deleted', actor: null, tree: true }]);
}

function stillRunning(
  rootId: string,
  found: { readonly instanceId: string; readonly status: InstanceStatus },
): PerdureError {
  const which =
    found.instanceId === rootId
      ? `Instance ${quote(rootId)}`
      : `Instance ${quote(found.instanceId)}, a descendant of ${quote(rootId)},`;
  return new PerdureError(
    'INSTANCE_STILL_RUNNING',
    `${which} is ${found.status}, so nothing was deleted. Cancel it and wait, terminate it, or pass \`force: true\`.`,
  );
}

function quote(id: string): string {
  return JSON.stringify(id);
}

/** The progress of a bulk deletion. */
export interface DeleteProgress extends DeleteInstanceResult {
  /** Deleted trees. */
  readonly rootsDeleted: number;
  /** Trees that were skipped, because an instance of them has not ended. */
  readonly rootsSkipped: number;
}

/** Options of `deleteInstanceBulk`. */
export interface BulkDeleteOptions {
  /** Confirms a filter without conditions, which selects all instances. Default: false. */
  readonly all?: boolean | undefined;
  /** Only counts the instances to delete. Default: false. */
  readonly dryRun?: boolean | undefined;
  /** The actor in the audit. */
  readonly actor?: string | undefined;
  /** Called after each transaction, with the totals so far. */
  readonly onProgress?: ((progress: DeleteProgress) => void) | undefined;
  /** Stops before the next transaction and rejects with the signal's reason. Committed deletions stay. */
  readonly signal?: AbortSignal | undefined;
}

const optionKeys = ['all', 'dryRun', 'actor', 'onProgress', 'signal'] as const;

/** Deletes the trees of all ended roots that match a filter, in small transactions. */
export async function deleteInstanceBulk(
  store: Provider,
  filter?: InstanceFilter,
  options?: BulkDeleteOptions,
): Promise<DeleteInstanceResult> {
  const { limit, shape, ...selection } = readInstanceFilter(filter);
  const given = readFields(options, 'deleteInstanceBulk()', optionKeys);
  assertHasCondition(filter, given.all);
  const dryRun = readFlag('dryRun', given.dryRun);
  checkCallback('onProgress', given.onProgress);
  const pacer = new Pacer(readSignal(given.signal));
  let sum: DeleteProgress = { ...nothingDeleted, rootsDeleted: 0, rootsSkipped: 0 };
  await deleteSelected(store, {
    selection: { ...selection, rootsOnly: true, withFinishedExecutions: false },
    limit,
    dryRun,
    audit: newAuditEntry('deleteBulk', readActor(given.actor), shape),
    pacer,
    onStep: ({ counts, rootsDeleted, rootsSkipped }) => {
      sum = {
        ...addDeleted(sum, counts),
        rootsDeleted: sum.rootsDeleted + rootsDeleted,
        rootsSkipped: sum.rootsSkipped + rootsSkipped,
      };
      options?.onProgress?.(sum);
    },
  });
  if (!dryRun && sum.rootsDeleted > 0) await reclaim(store, pacer);
  return addDeleted(nothingDeleted, sum);
}
