import type { EnqueueResult, NewMessage } from '../../contract/instances.ts';
import { isVisited, oneInstance, type AuditedStep } from '../../rules/audit-sums.ts';
import type { Batch } from '../batches/batch.ts';
import type { Scope } from '../driver/scope.ts';
import type { Store } from '../store.ts';
import type { EventKey } from '../tables/event-keys.ts';
import { isOver } from '../tables/instance-rows.ts';

/** Enqueues messages to instances that exist and have not ended. */
export async function enqueue(
  store: Store,
  scope: Scope,
  entries: readonly NewMessage[],
): Promise<readonly EnqueueResult[]> {
  const batch = store.newBatch(scope);
  const ids = [...new Set(entries.map(({ instanceId }) => instanceId))];
  await scope.begin(batch.instances.lock({ ids }));
  return enqueueLocked(store, batch, entries);
}

/** Enqueues messages to locked instances. */
export async function enqueueLocked(
  store: Store,
  batch: Batch,
  entries: readonly NewMessage[],
): Promise<readonly EnqueueResult[]> {
  const { scope, instances, changes } = batch;
  const known = await readKeys(store, batch, entries);
  const added: EventKey[] = [];
  const pending = await countPending(store, batch, entries);
  const progress = await readProgress(store, scope, entries);
  const steps: AuditedStep[] = [];
  const results = entries.map((entry): EnqueueResult => {
    const { instanceId, message, maxPending, key: eventKey, bulk } = entry;
    const receiver = instances.find(instanceId);
    if (receiver === undefined) return 'missing';
    // Before the end: the first response may have been lost.
    const { instanceKey: receiverKey } = receiver;
    const ownKey = eventKey === undefined ? undefined : `${receiverKey} ${eventKey}`;
    if (ownKey !== undefined && known.has(ownKey)) return 'repeated';
    if (bulk !== undefined) {
      if (bulk.instanceKey !== receiver.instanceKey) return 'missing';
      if (isVisited(receiver.instanceKey, progress.get(bulk.audit.auditId))) return 'repeated';
    }
    if (isOver(receiver)) return 'over';
    const key = `${receiver.instanceKey} ${message.kind}`;
    const count = pending.get(key) ?? 0;
    if (maxPending !== undefined && count >= maxPending) return 'full';
    pending.set(key, count + 1);
    if (eventKey !== undefined && ownKey !== undefined) {
      known.add(ownKey);
      added.push({ instanceKey: receiverKey, eventKey });
    }
    // Not before the start message: a turn without it could not begin.
    const visibleAt = receiver.status === 'pending' ? (receiver.runAt ?? 0) : 0;
    changes.send(scope, receiver, message, Math.max(scope.now, visibleAt));
    if (bulk !== undefined) {
      const { audit: entry, instanceKey } = bulk;
      steps.push({ entry, counts: oneInstance, progressKey: instanceKey });
      progress.set(entry.auditId, instanceKey);
    }
    return 'enqueued';
  });
  await changes.write(scope, store);
  await store.eventKeys.add(scope.tx, added, scope.now);
  await store.audit.record(scope.tx, steps, scope.now);
  return results;
}

/**
 * Reads how far bulk operations came. The receivers are locked already, so that of two concurrent transactions for the
 * same instances the second one reads the progress of the first.
 */
async function readProgress(
  { audit }: Store,
  { tx }: Scope,
  entries: readonly NewMessage[],
): Promise<Map<string, number>> {
  const auditIds = new Set(entries.flatMap(({ bulk }) => bulk?.audit.auditId ?? []));
  return new Map(auditIds.size === 0 ? [] : await audit.progressOf(tx, [...auditIds]));
}

/** Counts pending messages by instance and kind, for messages with `maxPending`. Includes buffered events. */
async function countPending(
  store: Store,
  { scope, instances }: Batch,
  entries: readonly NewMessage[],
): Promise<Map<string, number>> {
  const wanted = new Map<string, { instanceKey: number; kind: string; most: number }>();
  const pending = new Map<string, number>();
  for (const { instanceId, message, maxPending } of entries) {
    const receiver = instances.find(instanceId);
    if (maxPending === undefined || receiver === undefined) continue;
    const { kind } = message;
    const key = `${receiver.instanceKey} ${kind}`;
    const most = Math.max(maxPending, wanted.get(key)?.most ?? 0);
    wanted.set(key, { instanceKey: receiver.instanceKey, kind, most });
    pending.set(key, kind === 'eventRaised' ? receiver.bufferedEvents : 0);
  }
  for (const { instanceKey, kind, count } of await store.messages.countOfKind(scope.tx, [
    ...wanted.values(),
  ])) {
    const key = `${instanceKey} ${kind}`;
    pending.set(key, (pending.get(key) ?? 0) + count);
  }
  return pending;
}

/** Reads which keys of the entries their receivers have got. The receivers are locked, so no other call adds one. */
async function readKeys(
  store: Store,
  { scope, instances }: Batch,
  entries: readonly NewMessage[],
): Promise<Set<string>> {
  const wanted = entries.flatMap(({ instanceId, key }): EventKey[] => {
    const receiver = key === undefined ? undefined : instances.find(instanceId);
    if (key === undefined || receiver === undefined) return [];
    return [{ instanceKey: receiver.instanceKey, eventKey: key }];
  });
  const known = await store.eventKeys.find(scope.tx, wanted);
  return new Set(known.map(({ instanceKey, eventKey }) => `${instanceKey} ${eventKey}`));
}
