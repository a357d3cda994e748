import type {
  CancelInstance,
  CancellationStore,
  PointOfNoReturn,
  RunningItem,
  StopResult,
} from '../../contract/cancellation.ts';
import type { Batch } from '../batches/changes.ts';
import { isLive } from '../tables/instance-locks.ts';
import type { StopRequest } from './instance-stops.ts';
import { parseToken } from '../../shared/lock-token.ts';
import type { Scope } from '../driver/scope.ts';
import type { Store } from '../store.ts';
import { toCancelInfo } from '../tables/work-items.ts';

// For children of a terminated instance, when nobody says otherwise.
const defaultCleanupMs = 300_000;

/** Requests to stop, and what still runs. */
export function createCancellationStore(store: Store): CancellationStore {
  const markPointsOfNoReturn = store.batching({
    operation: 'markPointOfNoReturn',
    run: (scope, lockTokens: readonly string[]) => markPoints(store, scope, lockTokens),
    maxInFlight: 1,
  });

  return {
    requestCancel: store.batching({
      operation: 'requestCancel',
      run: (scope, requests: readonly CancelInstance[]) => requestCancels(store, scope, requests),
      maxInFlight: 1,
    }),

    terminate: store.batching({
      operation: 'terminate',
      run: (scope, requests) =>
        stop(store, scope, {
          requests: requests.map((request) => ({ cleanupMs: defaultCleanupMs, ...request })),
          parents: 'all',
          how: (batch, known) => store.stops.terminate(batch, known),
        }),
      maxInFlight: 1,
    }),

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
        return rows.map((row) => ({
          operation: row.operation,
          name: store.definitions.get(row.definitionKey).name,
          attempt: row.failures + 1,
          lockedUntil: row.lockedUntil,
          worker: row.worker,
          claimedAt: row.claimedAt,
          cancel:
            row.cancelTrigger === null || row.cancelReason === null
              ? null
              : { reason: row.cancelReason, trigger: row.cancelTrigger },
        }));
      }),
  };
}

/** Asks instances to stop. */
export function requestCancels(
  store: Store,
  scope: Scope,
  requests: readonly CancelInstance[],
): Promise<readonly StopResult[]> {
  const how = (batch: Batch, known: readonly StopRequest[]) => store.stops.request(batch, known);
  return stop(store, scope, { requests, parents: 'ending', how });
}

/** Stops instances, and says what became of each. */
async function stop<Request extends { readonly instanceId: string; readonly incarnation?: string }>(
  store: Store,
  scope: Scope,
  {
    requests,
    parents,
    how,
  }: {
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
  await scope.begin(instances.lock({ ids, parents }));
  const find = ({ instanceId, incarnation }: Pick<Request, 'instanceId' | 'incarnation'>) => {
    const row = instances.find(instanceId);
    return row?.incarnation === (incarnation ?? row?.incarnation) ? row : undefined;
  };
  const known = requests.flatMap((request) => {
    const row = find(request);
    return row === undefined ? [] : [{ ...request, instanceKey: row.instanceKey }];
  });
  const changed = await how(batch, known);
  await batch.changes.write(scope, store);
  const changedOf = new Map(known.map((_, index) => [index, changed[index] === true]));
  let place = 0;
  return requests.map((request): StopResult => {
    const row = find(request);
    if (row === undefined) return { found: false, changed: false, status: null };
    return { found: true, changed: changedOf.get(place++) ?? false, status: row.status };
  });
}

async function markPoints(
  store: Store,
  scope: Scope,
  lockTokens: readonly string[],
): Promise<readonly PointOfNoReturn[]> {
  const tokens = lockTokens.map(parseToken);
  const [items] = await scope.begin(
    store.workItems.lock(
      scope.tx,
      tokens.map(({ key }) => key),
    ),
  );
  const passed: number[] = [];
  const results = tokens.map(({ key, secret }): PointOfNoReturn => {
    const item = items.get(key);
    if (item?.lockToken !== secret || !isLive(item, scope.now)) return { kind: 'lost' };
    const cancel = toCancelInfo(item);
    if (cancel !== null) return { kind: 'canceled', cancel };
    passed.push(key);
    return { kind: 'passed' };
  });
  await store.workItems.passPointOfNoReturn(scope.tx, passed);
  return results;
}
