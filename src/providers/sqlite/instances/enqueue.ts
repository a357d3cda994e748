import type { EnqueueResult, NewMessage } from '../../contract/instances.ts';
import { isVisited, oneInstance } from '../../rules/audit-sums.ts';
import type { Scope } from '../batches/group-commit.ts';
import type { Audit } from '../tables/audit.ts';
import type { EventKeys } from '../tables/event-keys.ts';
import type { InstanceLocks } from '../tables/instance-locks.ts';
import type { InstanceRows } from '../tables/instance-rows.ts';
import type { Messages } from '../tables/messages.ts';

/** The parts of the store that enqueue messages. */
export interface EnqueueParts {
  readonly audit: Audit;
  readonly eventKeys: EventKeys;
  readonly instances: InstanceRows;
  readonly locks: InstanceLocks;
  readonly messages: Messages;
}

/** Enqueues a message to an instance that exists and has not ended. */
export function enqueue(store: EnqueueParts, scope: Scope, entry: NewMessage): EnqueueResult {
  const { instanceId, message, maxPending, key, bulk } = entry;
  const receiver = store.instances.findReceiver(instanceId);
  if (receiver === undefined) return 'missing';
  // Before the end: the first response may have been lost.
  if (key !== undefined && store.eventKeys.has(receiver.instanceKey, key)) return 'repeated';
  if (bulk !== undefined) {
    if (bulk.instanceKey !== receiver.instanceKey) return 'missing';
    const progressKey = store.audit.progressOf(bulk.audit.auditId);
    if (isVisited(receiver.instanceKey, progressKey)) return 'repeated';
  }
  if (receiver.isClosed === 1) return 'over';
  const { instanceKey, definitionKey } = receiver;
  if (maxPending !== undefined) {
    const taken = message.kind === 'eventRaised' ? receiver.bufferedEvents : 0;
    if (store.messages.isFull(instanceKey, message.kind, Math.max(maxPending - taken, 0))) {
      return 'full';
    }
  }
  if (key !== undefined) store.eventKeys.add(instanceKey, key, scope.now);
  // Not before the start message: a turn without it could not begin.
  const visibleAt = Math.max(scope.now, receiver.runAt ?? 0);
  store.messages.insert(instanceKey, message, visibleAt);
  const isHeld = store.locks.touch(instanceKey, definitionKey, visibleAt);
  if (isHeld) scope.effects.messages.add(instanceKey);
  scope.effects.due('orchestrations', visibleAt);
  if (bulk !== undefined) {
    const step = { entry: bulk.audit, counts: oneInstance, progressKey: instanceKey };
    store.audit.record([step], scope.now);
  }
  return 'enqueued';
}
