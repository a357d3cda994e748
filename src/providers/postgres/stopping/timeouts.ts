import type { ApplyTimeouts, AppliedTimeouts } from '../../contract/cancellation.ts';
import { timeoutReason } from '../../rules/deadlines.ts';
import type { StoreAccess } from '../batches/store-access.ts';
import type { Scope } from '../driver/scope.ts';
import type { InstanceDeadlines } from '../tables/instance-deadlines.ts';
import type { StopStore } from './cancellation.ts';

/** The parts of the store that cancel instances whose timeouts have passed. */
export type TimeoutParts = StoreAccess & StopStore & { readonly deadlines: InstanceDeadlines };

/** Cancels instances whose timeouts have passed. Writes only if there are any. */
export async function applyTimeouts(
  store: TimeoutParts,
  request: ApplyTimeouts,
): Promise<AppliedTimeouts> {
  const next = await store.read('applyTimeouts', (tx) =>
    store.deadlines.next(tx, store.nowParameter),
  );
  if (next.nextAt === null || next.nextAt > next.nowMs) return { canceled: 0, ...next };
  return store.writeOnce('applyTimeouts', (scope) => cancelPassed(store, scope, request));
}

async function cancelPassed(
  store: TimeoutParts,
  scope: Scope,
  { limit, cleanupMs }: ApplyTimeouts,
): Promise<AppliedTimeouts> {
  const { deadlines, stops } = store;
  const batch = store.newBatch(scope);
  await scope.begin();
  const { tx, now } = scope;
  const keys = await deadlines.passed(tx, now, limit);
  await batch.instances.lock({ keys, parents: 'ending' });
  // Under the locks: another worker may have applied them meanwhile.
  const passed = await deadlines.take(tx, keys, now);
  const changed = await stops.requestCancel(
    batch,
    passed.map(({ instanceKey, timeoutMs }) => ({
      instanceKey,
      reason: timeoutReason(timeoutMs),
      actor: null,
      trigger: 'timeout',
      cleanupMs,
    })),
  );
  await batch.changes.write(scope, store);
  const next = await deadlines.next(tx, scope.nowParameter);
  return { canceled: changed.filter(Boolean).length, ...next };
}
