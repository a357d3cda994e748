import type {
  CancellationStore,
  PointOfNoReturn,
  RunningItem,
  StopResult,
} from '../../contract/cancellation.ts';
import type { AuditEntry } from '../../contract/management.ts';
import { oneInstance } from '../../rules/audit-sums.ts';
import type { DeletedStarts } from '../starts/deleted-starts.ts';
import type { Audit } from '../tables/audit.ts';
import type { FullRow, InstanceRows } from '../tables/instance-rows.ts';
import type { WorkItems } from '../tables/work-items.ts';
import type { Definitions } from '../tables/definitions.ts';
import type { InstanceStops } from './instance-stops.ts';
import type { Scope } from '../batches/group-commit.ts';
import { applyTimeouts, type TimeoutParts } from './timeouts.ts';
import {
  recordedStops,
  repeatedStop,
  stopKey,
  type StopAction,
} from '../../shared/repeated-stops.ts';
import { toCancelInfo, toRunningItem } from '../../shared/work-item-row.ts';

/** The parts of the store that cancel and terminate. */
interface CancellationParts extends TimeoutParts {
  readonly audit: Audit;
  readonly deletedStarts: DeletedStarts;
  readonly definitions: Definitions;
  readonly instances: InstanceRows;
  readonly stops: InstanceStops;
  readonly workItems: WorkItems;
}

/** The instance of a request. */
interface StopTarget {
  readonly instanceId: string;
  readonly incarnation?: string;
  readonly key?: string;
  readonly audit?: AuditEntry;
}

// Clean-up limit for children of a terminated instance.
const defaultCleanupMs = 300_000;

/** Cancels and terminates instances, and lists running items. */
export function createCancellationStore(store: CancellationParts): CancellationStore {
  /** Stops an instance, and reads its new status. */
  const stop = (
    action: StopAction,
    { now }: Scope,
    target: StopTarget,
    how: (row: FullRow) => boolean,
  ): StopResult => {
    const { instanceId, incarnation, audit } = target;
    const row = store.instances.find(instanceId);
    const startKey = stopKey(action, target);
    if (startKey !== undefined && store.deletedStarts.hasLiveKey(startKey, now))
      return repeatedStop(row?.status);
    if (row === undefined || row.incarnation !== (incarnation ?? row.incarnation)) {
      return { found: false, changed: false, status: null };
    }
    const changed = how(row);
    if (changed) store.deletedStarts.add(recordedStops(action, [target], now), now);
    if (changed && audit !== undefined) {
      store.audit.record([{ entry: audit, counts: oneInstance }], now);
    }
    const status = store.instances.get(row.instanceKey)?.status ?? null;
    return { found: true, changed, status };
  };

  return {
    requestCancel: (requests) =>
      store.write('requestCancel', requests, (scope, request) =>
        stop('cancel', scope, request, (row) => store.stops.request(scope, row, request)),
      ),

    terminate: (requests) =>
      store.write('terminate', requests, (scope, request) =>
        stop('terminate', scope, request, (row) =>
          store.stops.terminate(scope, row, { cleanupMs: defaultCleanupMs, ...request }),
        ),
      ),

    applyTimeouts: (request) => applyTimeouts(store, request),

    async markPointOfNoReturn(lockToken) {
      const [result] = await store.write('markPointOfNoReturn', [lockToken], ({ now }, token) =>
        markPointOfNoReturn(store, token, now),
      );
      return result ?? { kind: 'lost' };
    },

    listRunningItems: (instanceId) =>
      store.read('listRunningItems', () => listRunningItems(store, instanceId)),
  };
}

function markPointOfNoReturn(
  store: CancellationParts,
  lockToken: string,
  now: number,
): PointOfNoReturn {
  if (store.workItems.passPointOfNoReturn(lockToken, now)) return { kind: 'passed' };
  const item = store.workItems.heldBy(lockToken, now);
  const cancel = item === undefined ? null : toCancelInfo(store.workItems.cancelOf(item.itemKey));
  return cancel === null ? { kind: 'lost' } : { kind: 'canceled', cancel };
}

function listRunningItems(store: CancellationParts, instanceId: string): readonly RunningItem[] {
  const instance = store.instances.findReceiver(instanceId);
  if (instance === undefined) return [];
  return store.workItems
    .selectRunning(instance.instanceKey, store.now())
    .map((row) => toRunningItem(row, store.definitions.get(row.definitionKey).name));
}
