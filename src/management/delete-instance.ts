import { PerdureError } from '../model/failures/errors.ts';
import { checkInstanceId } from '../model/values/names.ts';
import { notFound } from '../model/failures/not-found.ts';
import { readFields } from '../model/option-fields.ts';
import type { InstanceStatus } from '../model/status.ts';
import type { DeleteInstanceResult } from '../providers/contract/management.ts';
import type { Provider } from '../providers/contract/provider.ts';
import { newAuditEntry } from './audit-entry.ts';
import { readInstanceTree } from './instance-tree.ts';
import { readActor, readFlag } from './option-values.ts';
import { Pacer } from './pacer.ts';
import { reclaim } from './reclaim.ts';

/** How to delete one instance. */
export interface DeleteOptions {
  /** Also when it is not over. Its handlers are told, its code gets no say: prefer to cancel it first. */
  readonly force?: boolean | undefined;
  /** Who asks, for the audit. */
  readonly actor?: string | undefined;
}

// A tree that grows under the deletion is read again so often, and then stopped first.
const quietTries = 5;
const maxTries = 10;

/** Deletes a root with all its descendants, whole or not at all. */
export async function deleteInstance(
  store: Provider,
  id: string,
  options?: DeleteOptions,
): Promise<DeleteInstanceResult> {
  const instanceId = checkInstanceId(id);
  const given = readFields(options, 'deleteInstance()', ['force', 'actor'] as const);
  const force = readFlag('force', given.force);
  const audit = newAuditEntry('delete', readActor(given.actor), { instanceIds: 1, force });
  for (let tries = 1; tries <= maxTries; tries += 1) {
    const rootIncarnation = await checkIsRoot(store, instanceId);
    if (force && tries > quietTries) await stopTree(store, instanceId);
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
    `Instance ${quote(instanceId)} starts children faster than they can be deleted, so nothing was deleted. Cancel or terminate it, then delete it.`,
  );
}

/** Answers the incarnation of a root; refuses a child, whose parent would wait for it for ever. */
async function checkIsRoot(store: Provider, instanceId: string): Promise<string> {
  const [record] = await store.getInstances([instanceId]);
  if (record === undefined) throw notFound(instanceId);
  if (record.parentInstanceId === null) return record.incarnation;
  const rootId = await findRoot(store, record.parentInstanceId);
  const advice =
    rootId === undefined
      ? 'Its ancestors form a circle: the store is damaged.'
      : `Delete its root ${quote(rootId)}, and the whole tree goes.`;
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

/** Keeps a tree from growing. */
async function stopTree(store: Provider, instanceId: string): Promise<void> {
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
    `${which} is ${found.status}, so nothing was deleted. Cancel it and wait, terminate it, or delete with force: true.`,
  );
}

function quote(id: string): string {
  return JSON.stringify(id);
}
