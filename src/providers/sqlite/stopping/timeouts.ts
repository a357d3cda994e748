import type { ApplyTimeouts, AppliedTimeouts } from '../../contract/cancellation.ts';
import { timeoutReason } from '../../rules/deadlines.ts';
import type { Scope, StoreAccess } from '../batches/group-commit.ts';
import type { InstanceDeadlines } from '../tables/instance-deadlines.ts';
import type { InstanceRows } from '../tables/instance-rows.ts';
import type { InstanceStops } from './instance-stops.ts';

/** The parts of the store that cancel instances whose timeouts have passed. */
export interface TimeoutParts extends StoreAccess {
  readonly deadlines: InstanceDeadlines;
  readonly instances: InstanceRows;
  readonly stops: InstanceStops;
}

/** Cancels instances whose timeouts have passed. Writes only if there are any. */
export async function applyTimeouts(
  store: TimeoutParts,
  request: ApplyTimeouts,
): Promise<AppliedTimeouts> {
  const nextAt = await store.read('applyTimeouts', () => store.deadlines.nextAt());
  const nowMs = store.now();
  if (nextAt === null || nextAt > nowMs) return { canceled: 0, nextAt, nowMs };
  return store.writeOnce('applyTimeouts', (scope) => cancelPassed(store, scope, request));
}

function cancelPassed(
  { deadlines, instances, stops }: TimeoutParts,
  scope: Scope,
  { limit, cleanupMs }: ApplyTimeouts,
): AppliedTimeouts {
  let canceled = 0;
  for (const { instanceKey, timeoutMs } of deadlines.passed(scope.now, limit)) {
    deadlines.clear(instanceKey);
    const row = instances.getFull(instanceKey);
    if (row === undefined) continue;
    const reason = timeoutReason(timeoutMs);
    const request = { reason, actor: null, trigger: 'timeout', cleanupMs } as const;
    if (stops.request(scope, row, request)) canceled += 1;
  }
  return { canceled, nextAt: deadlines.nextAt(), nowMs: scope.now };
}
