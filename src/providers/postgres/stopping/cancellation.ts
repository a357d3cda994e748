import type {
  CancelInstance,
  CancellationStore,
  PointOfNoReturn,
  RunningItem,
  StopResult,
} from '../../contract/cancellation.ts';
import type { AuditEntry } from '../../contract/management.ts';
import { oneInstance } from '../../rules/audit-sums.ts';
import { isHeldBy } from '../../rules/claims.ts';
import { parseToken } from '../../shared/lock-token.ts';
import type { Batch, Changes } from '../batches/batch.ts';
import type { BatchWork } from '../batches/batching.ts';
import type { StoreAccess } from '../batches/store-access.ts';
import type { Scope } from '../driver/scope.ts';
import type { DeletedStarts } from '../starts/deleted-starts.ts';
import type { Audit } from '../tables/audit.ts';
import type { Definitions } from '../tables/definitions.ts';
import type { WorkItems } from '../tables/work-items.ts';
import {
  recordedStops,
  repeatedStop,
  stopKey,
  type StopAction,
} from '../../shared/repeated-stops.ts';
import { toCancelInfo, toRunningItem } from '../../shared/work-item-row.ts';
import type { InstanceStops } from './instance-stops.ts';
import { applyTimeouts, type TimeoutParts } from './timeouts.ts';

/** Clean-up limit for children of a terminated instance, unless the request sets one. */
const defaultCleanupMs = 300_000;

/** The store parts that a cancel or terminate writes through. */
export type StopStore = Pick<StoreAccess, 'newBatch'> &
  Parameters<Changes['write']>[1] & {
    readonly audit: Audit;
    readonly deletedStarts: DeletedStarts;
    readonly stops: InstanceStops;
  };

type CancellationParts = TimeoutParts & {
  readonly definitions: Definitions;
  readonly workItems: WorkItems;
};

/** Implements cancel, terminate, points of no return and the list of running items. */
export function createCancellationStore(
  store: CancellationParts,
  cancelInOneStatement: NonNullable<BatchWork<CancelInstance, StopResult>['runSingleStatement']>,
): CancellationStore {
  const markPointsOfNoReturn = store.batching({
    operation: 'markPointOfNoReturn',
    run: (scope, lockTokens: readonly string[]) => markPoints(store, scope, lockTokens),
    maxInFlight: 1,
  });

  return {
    requestCancel: store.batching({
      operation: 'requestCancel',
      run: (scope, requests: readonly CancelInstance[]) => requestCancels(store, scope, requests),
      runSingleStatement: cancelInOneStatement,
      maxInFlight: 1,
    }),

    terminate: store.batching({
      operation: 'terminate',
      run: (scope, requests) =>
        stop(store, scope, {
          action: 'terminate',
          requests: requests.map((request) => ({ cleanupMs: defaultCleanupMs, ...request })),
          parents: 'all',
          how: (batch, known) => store.stops.terminate(batch, known),
        }),
      maxInFlight: 1,
    }),

    applyTimeouts: (request) => applyTimeouts(store, request),

    async markPointOfNoReturn(lockToken) {
      const [result] = await markPointsOfNoReturn([lockToken]);
      return result ?? { kind: 'lost' };
    },

    listRunningItems: (instanceId) =>
      store.read('listRunningItems', async (tx): Promise<readonly RunningItem[]> => {
        const rows = await store.workItems.selectRunning(tx, instanceId, store.nowParameter);
        await store.definitions.load(
          tx,
          rows.map(({ definitionKey }) => definitionKey),
        );
        return rows.map((row) => toRunningItem(row, store.definitions.get(row.definitionKey).name));
      }),
  };
}

/** Cancels instances within a transaction. */
export function requestCancels(
  store: StopStore,
  scope: Scope,
  requests: readonly CancelInstance[],
): Promise<readonly StopResult[]> {
  return stop(store, scope, {
    action: 'cancel',
    requests,
    parents: 'ending',
    how: (batch, known) => store.stops.requestCancel(batch, known),
  });
}

/** The instance of a request. */
interface StopTarget {
  readonly instanceId: string;
  readonly incarnation?: string;
  readonly key?: string;
  readonly audit?: AuditEntry;
}

/** Locks the named instances, stops them with `how`, and writes the changes. */
async function stop<Request extends StopTarget>(
  store: StopStore,
  scope: Scope,
  {
    action,
    requests,
    parents,
    how,
  }: {
    readonly action: StopAction;
    readonly requests: readonly Request[];
    readonly parents: 'all' | 'ending';
    readonly how: (
      batch: Batch,
      known: readonly (Request & { readonly instanceKey: number })[],
    ) => Promise<readonly boolean[]>;
  },
): Promise<readonly StopResult[]> {
  const batch = store.newBatch(scope);
  const { instances } = batch;
  const ids = [...new Set(requests.map(({ instanceId }) => instanceId))];
  // The keys are read after the lock: a first attempt that held it has committed.
  const [, repeatedKeys] = await scope.begin(
    instances.lock({ ids, parents }),
    store.deletedStarts.findLiveKeys(
      scope.tx,
      requests.flatMap((request) => stopKey(action, request) ?? []),
      scope.nowParameter,
    ),
  );
  const targets = requests.map((request) => {
    if (repeatedKeys.has(stopKey(action, request) ?? '')) return undefined;
    const row = instances.find(request.instanceId);
    if (row === undefined) return undefined;
    // A request without an incarnation applies to the current instance with this id.
    const isOtherIncarnation =
      request.incarnation !== undefined && request.incarnation !== row.incarnation;
    return isOtherIncarnation ? undefined : { ...request, instanceKey: row.instanceKey };
  });
  const known = targets.filter((target) => target !== undefined);
  const changed = await how(batch, known);
  await batch.changes.write(scope, store);
  const changedBy = new Set(known.filter((_, index) => changed[index] === true));
  const steps = [...changedBy].map(({ audit }) => ({ entry: audit, counts: oneInstance }));
  const recorded = recordedStops(action, [...changedBy], scope.now);
  await Promise.all([
    store.audit.record(scope.tx, steps, scope.now),
    store.deletedStarts.add(scope.tx, recorded, scope.now),
  ]);
  // A repeat can be in the batch of its first attempt.
  const keys = new Set([...repeatedKeys, ...recorded.map(({ startKey }) => startKey)]);
  return requests.map((request, index): StopResult => {
    const target = targets[index];
    const key = stopKey(action, request);
    if (key !== undefined && keys.has(key))
      return repeatedStop(instances.find(request.instanceId)?.status);
    if (target === undefined) return { found: false, changed: false, status: null };
    const status = instances.get(target.instanceKey)?.status ?? null;
    return { found: true, changed: changedBy.has(target), status };
  });
}

async function markPoints(
  { workItems }: Pick<CancellationParts, 'workItems'>,
  scope: Scope,
  lockTokens: readonly string[],
): Promise<readonly PointOfNoReturn[]> {
  const tokens = lockTokens.map(parseToken);
  const [items] = await scope.begin(
    workItems.lock(
      scope.tx,
      tokens.map(({ key }) => key),
    ),
  );
  const passed: number[] = [];
  const results = tokens.map(({ key, secret }): PointOfNoReturn => {
    const item = items.get(key);
    if (!isHeldBy(item, secret, scope.now)) return { kind: 'lost' };
    const cancel = toCancelInfo(item);
    if (cancel !== null) return { kind: 'canceled', cancel };
    passed.push(key);
    return { kind: 'passed' };
  });
  await workItems.passPointOfNoReturn(scope.tx, passed);
  return results;
}
