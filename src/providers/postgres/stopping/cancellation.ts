import { encodeEvent, type HistoryEvent, type ParentRef } from '../../../model/event.ts';
import { platformFailure } from '../../../model/failures/failure.ts';
import { encodeMessage, type Message } from '../../../model/message.ts';
import { isTerminal } from '../../../model/status.ts';
import type {
  CancelInstance,
  CancellationStore,
  PointOfNoReturn,
  RunningItem,
  StopResult,
} from '../../contract/cancellation.ts';
import { parseToken } from '../../shared/lock-token.ts';
import type { Batch } from '../batches/changes.ts';
import type { Scope } from '../driver/scope.ts';
import type { Store } from '../store.ts';
import type { History } from '../tables/history.ts';
import { isLive } from '../tables/instance-locks.ts';
import { isOver, parentOf, type InstanceRow } from '../tables/instance-rows.ts';
import type { ItemCancels } from '../tables/item-cancels.ts';
import type { StopRows } from '../tables/stop-rows.ts';
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

/** Asks an instance to stop. */
export interface StopRequest {
  readonly instanceKey: number;
  readonly reason: string;
  readonly actor: string | null;
  /** How long the code of what is asked to stop may clean up. */
  readonly cleanupMs: number;
}

export interface TerminateRequest extends StopRequest {
  readonly tree: boolean;
}

/** Stops instances, whoever asks for it: a client, a turn, the end of a parent. */
export class InstanceStops {
  readonly #history: History;
  readonly #rows: StopRows;
  readonly #itemCancels: ItemCancels;

  constructor(parts: {
    readonly history: History;
    readonly stopRows: StopRows;
    readonly itemCancels: ItemCancels;
  }) {
    this.#history = parts.history;
    this.#rows = parts.stopRows;
    this.#itemCancels = parts.itemCancels;
  }

  /** Asks instances that are locked to stop; says for each whether that changed anything. */
  async request(batch: Batch, requests: readonly StopRequest[]): Promise<readonly boolean[]> {
    const { instances } = batch;
    const pending = requests.filter(
      ({ instanceKey }) => instances.get(instanceKey)?.status === 'pending',
    );
    await this.#lockParents(batch, pending);
    const asked: StopRequest[] = [];
    const runs: StopRequest[] = [];
    const changed = requests.map((request) => {
      const row = instances.get(request.instanceKey);
      if (row?.isTask === true && (row.status === 'pending' || row.status === 'running')) {
        runs.push(request);
        instances.update(row.instanceKey, { status: 'canceling' });
      } else if (row?.status === 'pending') cancelPending(batch, row, request);
      else if (row?.status === 'running') {
        asked.push(request);
        instances.update(row.instanceKey, { status: 'canceling', cancelReason: request.reason });
      } else return false;
      return true;
    });
    await this.#askToStop(batch, asked);
    await this.#cancelRuns(batch, runs);
    return changed;
  }

  /** Ends instances that are locked, and asks their children to stop or ends them too; says whether that changed anything. */
  async terminate(
    batch: Batch,
    requests: readonly TerminateRequest[],
  ): Promise<readonly boolean[]> {
    // One of them may be of the tree of another: then the order counts.
    const mayBeRelated =
      requests.length > 1 &&
      requests.some(
        ({ instanceKey }) => batch.instances.get(instanceKey)?.parentInstanceId != null,
      );
    if (!mayBeRelated) return this.#terminateTrees(batch, requests);
    const changed: boolean[] = [];
    for (const request of requests) {
      changed.push(...(await this.#terminateTrees(batch, [request])));
    }
    return changed;
  }

  /** Ends a level of all trees at a time. */
  async #terminateTrees(
    batch: Batch,
    requests: readonly TerminateRequest[],
  ): Promise<readonly boolean[]> {
    const { instances } = batch;
    const changed = requests.map(() => false);
    const met = new Set<number>();
    let level = requests
      .map((request, index) => ({ request, index }))
      .filter(({ request }) => {
        const row = instances.get(request.instanceKey);
        const isNew = row !== undefined && !isTerminal(row.status) && !met.has(request.instanceKey);
        met.add(request.instanceKey);
        return isNew;
      });
    while (level.length > 0) {
      const live = level.filter(({ request }) => isActive(instances.get(request.instanceKey)));
      const ended = await this.#terminateLevel(
        batch,
        live.map(({ request }) => request),
      );
      for (const [place, { index }] of live.entries()) changed[index] ||= ended[place] === true;
      level = await this.#nextLevel(batch, level, { changed, met });
    }
    return changed;
  }

  /** Asks the children of executions that are over to stop. */
  async lockChildren(
    { scope, instances }: Batch,
    parents: readonly Pick<InstanceRow, 'instanceId' | 'executionId'>[],
    which: 'live' | 'all' = 'live',
  ): Promise<readonly InstanceRow[]> {
    const children = await this.#rows.lockChildren(scope.tx, parents, which);
    return children.map((child) => {
      const known = instances.get(child.instanceKey);
      if (known === undefined) instances.set(child);
      return known ?? child;
    });
  }

  /** Makes instances that were closed `canceled`, unless something of them still runs; their parents are locked. */
  async finishClosing(batch: Batch, instanceKeys: readonly number[]): Promise<void> {
    const { scope, instances } = batch;
    const finished = await this.#rows.finishClosing(scope.tx, instanceKeys, scope.now);
    if (finished.length === 0) return;
    await this.#lockParents(
      batch,
      finished.map((instanceKey) => ({ instanceKey })),
    );
    for (const instanceKey of finished) {
      const row = instances.get(instanceKey);
      if (row?.closingReason === undefined || row.closingReason === null) continue;
      tellParentOfCancel(batch, row, row.closingReason);
      scope.effects.finished.push(row.instanceId);
      instances.update(instanceKey, { status: 'canceled', closingReason: null });
    }
  }

  /** Ends task runs that nobody holds, and asks the others to stop. */
  async #cancelRuns(
    { scope, instances, changes }: Batch,
    requests: readonly StopRequest[],
  ): Promise<void> {
    const { kept, startedAt } = await this.#itemCancels.cancelAll(
      scope,
      requests.map(({ instanceKey, reason }) => ({
        instanceKey,
        reason,
        reach: 'request',
        toldExecutionId: null,
      })),
    );
    for (const { instanceKey, reason, actor } of requests) {
      const run = instances.get(instanceKey);
      if (run === undefined) continue;
      if (kept.has(instanceKey)) changes.cancelRequests.push({ instanceKey, reason, actor });
      else {
        const start = { startedAt: startedAt.get(instanceKey) ?? null };
        changes.tasks.end(scope, run, { status: 'canceled', ...start, reason, actor });
        instances.update(instanceKey, { status: 'canceled' });
      }
    }
  }

  async #askToStop(
    { scope, instances, changes }: Batch,
    requests: readonly StopRequest[],
  ): Promise<void> {
    if (requests.length === 0) return;
    const { now, effects } = scope;
    // Ahead of what it cancels, so that the code learns of the request first.
    for (const { instanceKey, reason, actor } of requests) {
      changes.cancelRequests.push({ instanceKey, reason, actor });
      const message = encodeMessage({ kind: 'cancel', reason, actor });
      changes.messages.push({ instanceKey, visibleAt: now, message });
    }
    const { messages } = await this.#itemCancels.cancelAll(
      scope,
      requests.map(({ instanceKey, reason }) => ({
        instanceKey,
        reason,
        reach: 'request',
        toldExecutionId: instances.get(instanceKey)?.executionId ?? null,
      })),
    );
    changes.messages.push(...messages);
    for (const { instanceKey, reason, cleanupMs } of requests) {
      const cleanupAt = now + Math.ceil(cleanupMs);
      const message = encodeMessage({ kind: 'cleanupExpired', reason });
      changes.messages.push({ instanceKey, visibleAt: cleanupAt, message });
      const definitionKey = instances.get(instanceKey)?.definitionKey ?? 0;
      changes.cleanups.push({ instanceKey, definitionKey, cleanupAt });
    }
    effects.due('orchestrations', now);
  }

  async #terminateLevel(
    batch: Batch,
    requests: readonly TerminateRequest[],
  ): Promise<readonly boolean[]> {
    const { scope, instances } = batch;
    const rows = requests.flatMap(({ instanceKey }) => instances.get(instanceKey) ?? []);
    await this.#lockParents(batch, requests);
    const times = await this.#history.lastTimes(scope.tx, rows);
    // The end of some is decided and recorded: all that can still be stopped is what went past its point of no return.
    const closing = rows.filter(({ closingReason }) => closingReason !== null);
    const { counts, kept, startedAt } = await this.#itemCancels.cancelAll(
      scope,
      requests.map(({ instanceKey, reason }) => ({
        instanceKey,
        reason,
        reach: 'terminate',
        toldExecutionId: null,
      })),
    );
    for (const [index, row] of rows.entries()) {
      const request = requests[index];
      if (request === undefined || row.closingReason !== null) continue;
      // Time never goes back within an execution, whatever the clock does.
      const at = Math.max(scope.now, times.get(row.instanceKey) ?? 0);
      const runStartedAt = row.isTask ? (startedAt.get(row.instanceKey) ?? null) : null;
      terminateOne(batch, row, { ...request, runStartedAt, at });
    }
    for (const row of rows) if (!kept.has(row.instanceKey)) batch.changes.tasks.freeKey(row);
    await this.finishClosing(
      batch,
      closing.map(({ instanceKey }) => instanceKey),
    );
    return rows.map(({ instanceKey, closingReason }) =>
      closingReason === null ? true : (counts.get(instanceKey) ?? 0) > 0,
    );
  }

  /** Asks the children to stop where no tree is to be ended; answers those that are to be ended next. */
  async #nextLevel(
    batch: Batch,
    level: readonly { readonly request: TerminateRequest; readonly index: number }[],
    { changed, met }: { readonly changed: boolean[]; readonly met: Set<number> },
  ): Promise<{ readonly request: TerminateRequest; readonly index: number }[]> {
    const byParent = new Map<string, (typeof level)[number]>();
    for (const entry of level) {
      const row = batch.instances.get(entry.request.instanceKey);
      if (row !== undefined) byParent.set(row.instanceId, entry);
    }
    // A tree goes on below a child that has ended: its own children may still clean up.
    const parents = Array.from(byParent.keys(), (instanceId) => ({ instanceId, executionId: 1 }));
    const isTree = level.some(({ request }) => request.tree);
    const children = await this.lockChildren(batch, parents, isTree ? 'all' : 'live');
    const next: { request: TerminateRequest; index: number }[] = [];
    const asked: { request: StopRequest; index: number }[] = [];
    for (const { instanceKey, parentInstanceId } of children) {
      const parent = byParent.get(parentInstanceId ?? '');
      if (parent === undefined || met.has(instanceKey)) continue;
      const { request, index } = parent;
      if (request.tree) met.add(instanceKey);
      (request.tree ? next : asked).push({ request: { ...request, instanceKey }, index });
    }
    const stopped = await this.request(
      batch,
      asked.map(({ request }) => request),
    );
    for (const [place, { index }] of asked.entries()) changed[index] ||= stopped[place] === true;
    return next;
  }

  async #lockParents(
    { instances }: Batch,
    rows: readonly { readonly instanceKey: number }[],
  ): Promise<void> {
    await instances.lockMore(
      rows.flatMap(({ instanceKey }) => instances.get(instanceKey)?.parentInstanceId ?? []),
    );
  }
}

function isActive(row: InstanceRow | undefined): boolean {
  return row !== undefined && !isTerminal(row.status);
}

function cancelPending(batch: Batch, row: InstanceRow, request: StopRequest): void {
  const { scope, instances, changes } = batch;
  const { instanceKey, instanceId } = row;
  const { reason, actor } = request;
  changes.pendingCancels.push({ instanceKey, reason, actor });
  record(batch, row, { kind: 'executionCanceled', at: scope.now, reason });
  changes.forget(instanceKey);
  tellParentOfCancel(batch, row, reason);
  scope.effects.finished.push(instanceId);
  instances.update(instanceKey, { status: 'canceled', historyLength: 1, cancelReason: reason });
}

function terminateOne(
  batch: Batch,
  row: InstanceRow,
  {
    reason,
    actor,
    runStartedAt,
    at,
  }: TerminateRequest & { readonly at: number; readonly runStartedAt: number | null },
): void {
  const { scope, instances, changes } = batch;
  const { instanceKey, instanceId } = row;
  changes.terminations.push({ instanceKey, reason, actor, runStartedAt });
  scope.effects.finished.push(instanceId);
  if (row.isTask) {
    instances.update(instanceKey, { status: 'terminated' });
    return;
  }
  record(batch, row, { kind: 'executionTerminated', at, reason, actor });
  changes.forget(instanceKey);
  const said = `Instance ${JSON.stringify(instanceId)} was terminated: ${reason}`;
  const failure = platformFailure('INSTANCE_TERMINATED', said);
  tellParent(batch, row, ({ executionId, operation }) => ({
    kind: 'childFailed',
    executionId,
    operation,
    failure,
  }));
  instances.update(instanceKey, { status: 'terminated', historyLength: row.historyLength + 1 });
}

function record({ changes }: Batch, row: InstanceRow, event: HistoryEvent): void {
  const { instanceKey, executionId, historyLength } = row;
  changes.events.push({
    instanceKey,
    executionId,
    eventId: historyLength + 1,
    ...encodeEvent(event),
  });
}

function tellParentOfCancel(batch: Batch, row: InstanceRow, reason: string): void {
  tellParent(batch, row, ({ executionId, operation }) => ({
    kind: 'childCanceled',
    executionId,
    operation,
    reason,
  }));
}

function tellParent(
  { scope, instances, changes }: Batch,
  row: InstanceRow,
  message: (parent: ParentRef) => Message,
): void {
  const parent = parentOf(row);
  const receiver = parent === null ? undefined : instances.find(parent.instanceId);
  if (parent === null || receiver === undefined || isOver(receiver)) return;
  if (receiver.executionId !== parent.executionId) return;
  changes.send(scope, receiver, encodeMessage(message(parent)));
}
