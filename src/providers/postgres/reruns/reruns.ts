import { toCancelDetails } from '../../../model/cancel.ts';
import { encodeMessage } from '../../../model/message.ts';
import type {
  ForkResult,
  InstanceFork,
  InstanceRetry,
  RerunStart,
  RerunStore,
  RetryResult,
} from '../../contract/reruns.ts';
import { isVisited } from '../../rules/audit-sums.ts';
import { existingFork, forkRefusal, retryRefusal, toStep } from '../../rules/reruns.ts';
import { Changes, type Batch } from '../batches/batch.ts';
import type { StoreAccess } from '../batches/store-access.ts';
import type { DeletedStarts } from '../starts/deleted-starts.ts';
import type { BeginLimits } from '../limits/begin-limits.ts';
import type { Audit } from '../tables/audit.ts';
import type { Scope } from '../driver/scope.ts';
import type { Turns } from '../instances/turns.ts';
import type { DedupeKeys } from '../tables/dedupe-keys.ts';
import type { Definitions } from '../tables/definitions.ts';
import type { History } from '../tables/history.ts';
import type { InstanceLocks } from '../tables/instance-locks.ts';
import { newInstanceRow, type InstanceRow, type InstanceRows } from '../tables/instance-rows.ts';
import type { InstanceDeadlines } from '../tables/instance-deadlines.ts';
import type { InstanceState } from '../tables/instance-state.ts';
import type { InstanceTags } from '../tables/instance-tags.ts';
import type { Messages } from '../tables/messages.ts';
import type { PauseRows } from '../tables/pause-rows.ts';
import type { ReplacedRows } from '../tables/replaced-rows.ts';
import type { StopRows } from '../tables/stop-rows.ts';
import type { TaskRows } from '../tables/task-rows.ts';
import type { UpdateRows } from '../tables/update-rows.ts';
import type { RerunRows } from './rerun-rows.ts';

/** The parts of the store that run instances again. */
export interface RerunParts extends StoreAccess {
  readonly audit: Audit;
  readonly beginLimits: BeginLimits;
  readonly definitions: Definitions;
  readonly dedupeKeys: DedupeKeys;
  readonly deletedStarts: DeletedStarts;
  readonly history: History;
  readonly instances: InstanceRows;
  readonly instanceState: InstanceState;
  readonly instanceTags: InstanceTags;
  readonly deadlines: InstanceDeadlines;
  readonly locks: InstanceLocks;
  readonly messages: Messages;
  readonly pauseRows: PauseRows;
  readonly replacedRows: ReplacedRows;
  readonly rerunRows: RerunRows;
  readonly stopRows: StopRows;
  readonly taskRows: TaskRows;
  readonly turns: Turns;
  readonly updateRows: UpdateRows;
}

/** Retries and forks instances. */
export function createRerunStore(store: RerunParts): RerunStore {
  return {
    retryInstances: store.batching({
      operation: 'retryInstances',
      run: (scope, retries) => retryAll(store, scope, retries),
      refused: (error): RetryResult => ({ kind: 'refused', error }),
      maxInFlight: 2,
      // A large copy must not hold the row locks of other instances.
      maxItems: 1,
    }),

    forkInstances: store.batching({
      operation: 'forkInstances',
      run: (scope, forks) =>
        store.deletedStarts.createUnlessDeleted(scope.tx, forks, (open) =>
          forkAll(store, scope, open),
        ),
      refused: (error): ForkResult => ({ kind: 'refused', error }),
      maxInFlight: 2,
      maxItems: 1,
    }),
  };
}

async function retryAll(
  store: RerunParts,
  scope: Scope,
  retries: readonly InstanceRetry[],
): Promise<readonly RetryResult[]> {
  const batch = store.newBatch(scope);
  const ids = [...new Set(retries.map(({ source }) => source.instanceId))];
  await scope.begin(batch.instances.lock({ ids }));
  const results: RetryResult[] = [];
  for (const one of retries) {
    results.push(await retry(store, { ...batch, changes: new Changes() }, one));
  }
  return results;
}

async function retry(store: RerunParts, batch: Batch, wanted: InstanceRetry): Promise<RetryResult> {
  const { tx, now } = batch.scope;
  const row = batch.instances.find(wanted.source.instanceId);
  const { audit, bulkKey } = wanted;
  if (audit !== undefined && bulkKey !== undefined) {
    // The instance is locked, so the second of two concurrent transactions reads the progress of the first.
    const progress = await store.audit.progressOf(tx, [audit.auditId]);
    if (isVisited(bulkKey, progress.get(audit.auditId))) return { kind: 'repeated' };
  }
  const refusal = retryRefusal(row, wanted.source);
  if (row === undefined || refusal !== undefined) return refusal ?? { kind: 'missing' };
  const found = await store.rerunRows.obstacles(tx, row.instanceKey);
  if (found?.isJob === true) return { kind: 'job' };
  if (row.isTask && found?.hasItems === true) return { kind: 'busy' };
  if (row.isTask && found !== undefined && found.holder !== null) {
    return { kind: 'keyTaken', instanceId: found.holder };
  }
  if (!row.isTask && found !== undefined && found.dedupeKey !== null) {
    const holder = await retakeKey(store, batch.scope, row, found.dedupeKey);
    if (holder !== undefined) return { kind: 'keyTaken', instanceId: holder };
  }
  if (row.isTask) await retryTask(store, batch, row, wanted);
  else await retryOrchestration(store, batch, row, wanted);
  const executionId = row.executionId + 1;
  await store.deadlines.renew(tx, row.instanceKey, now);
  await store.audit.record(tx, [toStep(wanted)], now);
  return { kind: 'retried', executionId };
}

/**
 * Takes the dedupe key of an orchestration again. Returns the live instance that holds it; then nothing changes. Concurrent
 * starts with the key wait for this transaction.
 */
async function retakeKey(
  store: RerunParts,
  scope: Scope,
  row: InstanceRow,
  dedupeKey: string,
): Promise<string | undefined> {
  const { tx } = scope;
  await store.definitions.load(tx, [row.definitionKey]);
  const { name } = store.definitions.get(row.definitionKey);
  // All versions of an orchestration share its keys.
  const definitionKey = await intern(store, scope, name, null);
  await store.replacedRows.lockKey(tx, { definitionKey, dedupeKey });
  const holder = await store.replacedRows.liveHolderOf(tx, { definitionKey, dedupeKey });
  const { instanceKey } = row;
  if (holder === undefined) {
    await store.replacedRows.takeKey(tx, { definitionKey, dedupeKey, instanceKey });
  }
  return holder;
}

async function retryTask(
  { rerunRows }: RerunParts,
  { scope, instances }: Batch,
  { instanceKey, executionId }: InstanceRow,
  { taskInput }: InstanceRetry,
): Promise<void> {
  const { tx, now, effects } = scope;
  await rerunRows.reopenTask(tx, instanceKey, taskInput, now);
  instances.update(instanceKey, { status: 'pending', executionId: executionId + 1 });
  effects.due('work', now);
}

async function retryOrchestration(
  store: RerunParts,
  batch: Batch,
  row: InstanceRow,
  { start, version }: InstanceRetry,
): Promise<void> {
  const { tx, now } = batch.scope;
  const { instanceKey } = row;
  // A caller passes it for every orchestration.
  if (start === undefined) throw new Error('The retry of an orchestration needs its start.');
  await store.definitions.load(tx, [row.definitionKey]);
  const { name } = store.definitions.get(row.definitionKey);
  const definitionKey = await intern(store, batch.scope, name, version);
  const historyLength = start.kept?.length ?? 0;
  const isStarted = historyLength > 0;
  await store.updateRows.interrupt(tx, instanceKey, row.status);
  await store.rerunRows.reopen(tx, { instanceKey, definitionKey, historyLength, isStarted, now });
  const executionId = row.executionId + 1;
  const live = {
    status: 'running',
    lastTurn: null,
    cancelReason: null,
    cancelTrigger: null,
    closingReason: null,
  } as const;
  const target: InstanceRow = { ...row, ...live, executionId, definitionKey, historyLength };
  await begin(store, batch, { start, source: row, target });
}

async function forkAll(
  store: RerunParts,
  scope: Scope,
  forks: readonly InstanceFork[],
): Promise<readonly ForkResult[]> {
  const batch = store.newBatch(scope);
  await scope.begin();
  const results: ForkResult[] = [];
  for (const one of forks) {
    results.push(await fork(store, { ...batch, changes: new Changes() }, one));
  }
  return results;
}

async function fork(store: RerunParts, batch: Batch, wanted: InstanceFork): Promise<ForkResult> {
  const { rerunRows, definitions } = store;
  const { tx, now } = batch.scope;
  const { source, start, name, version } = wanted;
  const row = await rerunRows.holdSource(tx, source.instanceId);
  const length = row && (await rerunRows.lengthOf(tx, row.instanceKey, source.executionId));
  const refusal = forkRefusal(row, source, length);
  if (row === undefined || refusal !== undefined) return refusal ?? { kind: 'missing' };
  const { instanceId, incarnation, inputHash, forkedFrom } = wanted;
  const definitionKey = await intern(store, batch.scope, name, version);
  const historyLength = start.kept?.length ?? 0;
  const isStarted = historyLength > 0;
  const own = { instanceId, incarnation, inputHash, forkedFrom };
  const state = { definitionKey, historyLength, isStarted, now };
  const instanceKey = await rerunRows.insertFork(tx, { ...own, ...state });
  if (instanceKey === undefined) {
    const existing = await rerunRows.findFork(tx, instanceId);
    // Deleted between the two statements.
    if (existing === undefined) return fork(store, batch, wanted);
    await definitions.load(tx, [existing.definitionKey]);
    const existingName = definitions.get(existing.definitionKey).name;
    return existingFork({ ...existing, name: existingName }, { ...own, name });
  }
  await store.instanceTags.add(tx, [{ instanceKey, tags: wanted.tags }]);
  await store.deadlines.copy(tx, row.instanceKey, instanceKey, now);
  await store.beginLimits.copyLane(tx, row.instanceKey, instanceKey);
  const created = newInstanceRow({
    instanceKey,
    instanceId,
    incarnation,
    definitionKey,
    // Matters only for turns that claim their work items, and this one claims none.
    hasPausedDefinitions: false,
  });
  const target: InstanceRow = {
    ...created,
    status: isStarted ? 'running' : 'pending',
    historyLength,
  };
  await begin(store, batch, {
    start,
    source: { instanceKey: row.instanceKey, executionId: source.executionId },
    target,
  });
  await store.audit.record(tx, [{ entry: wanted.audit, counts: { instances: 1 } }], now);
  return { kind: 'forked' };
}

async function intern(
  { definitions }: RerunParts,
  scope: Scope,
  name: string,
  version: string | null,
): Promise<number> {
  const keyOf = await definitions.intern(scope, [{ kind: 'orchestration', name, version }]);
  return keyOf('orchestration', name, version);
}

/** Writes what a new execution begins with, and makes it claimable. */
async function begin(
  store: RerunParts,
  batch: Batch,
  options: {
    readonly start: RerunStart;
    readonly source: { readonly instanceKey: number; readonly executionId: number };
    readonly target: InstanceRow;
  },
): Promise<void> {
  const { start, source, target } = options;
  const { kept, cancel, turn } = start;
  const { scope, changes } = batch;
  const { tx, now } = scope;
  const { instanceKey, executionId, definitionKey } = target;
  if (kept !== undefined) {
    changes.events.push({ instanceKey, executionId, eventId: 1, ...kept.first });
    await store.rerunRows.copyHistory(tx, {
      fromKey: source.instanceKey,
      fromExecution: source.executionId,
      toKey: instanceKey,
      toExecution: executionId,
      last: kept.length,
    });
  }
  await store.instanceState.replace(tx, instanceKey, start.state ?? []);
  scope.effects.statusSet.add(target.instanceId);
  for (const message of start.messages) changes.send(scope, target, message);
  if (cancel !== undefined) {
    const { reason } = cancel;
    const cleanupAt = now + Math.ceil(cancel.cleanupMs);
    const message = encodeMessage({ kind: 'cleanupExpired', reason });
    changes.messages.push({ instanceKey, visibleAt: cleanupAt, message });
    changes.cancelRequests.push({ instanceKey, ...toCancelDetails(cancel) });
    changes.cleanups.push({ instanceKey, definitionKey, cleanupAt });
  }
  const canceling = {
    status: 'canceling',
    cancelReason: cancel?.reason ?? null,
    cancelTrigger: cancel?.trigger ?? null,
  } as const;
  const current: InstanceRow = cancel === undefined ? target : { ...target, ...canceling };
  batch.instances.set(current);
  if (turn === undefined) await changes.write(scope, store);
  else await store.turns.commit(batch, [{ target: current, hasLockRow: true, turn }]);
}
