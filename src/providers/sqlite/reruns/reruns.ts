import { encodeMessage } from '../../../model/message.ts';
import type {
  ForkResult,
  InstanceFork,
  InstanceRetry,
  RerunRefusal,
  RerunStart,
  RerunStore,
  RetryResult,
} from '../../contract/reruns.ts';
import { isVisited } from '../../rules/audit-sums.ts';
import { existingFork, forkRefusal, retryRefusal, toStep } from '../../rules/reruns.ts';
import { toCancelRow } from '../../shared/instance-record-row.ts';
import { taskOperation } from '../../shared/work-item-row.ts';
import type { Scope, StoreAccess } from '../batches/group-commit.ts';
import type { DeletedStarts } from '../starts/deleted-starts.ts';
import type { BeginLimits } from '../limits/begin-limits.ts';
import type { Audit } from '../tables/audit.ts';
import type { TaskRuns } from '../tasks/task-runs.ts';
import type { Turns } from '../instances/turns.ts';
import type { Definitions } from '../tables/definitions.ts';
import type { InstanceLocks } from '../tables/instance-locks.ts';
import type { FullRow, InstanceRows, TurnTarget } from '../tables/instance-rows.ts';
import type { InstanceDeadlines } from '../tables/instance-deadlines.ts';
import type { InstanceState } from '../tables/instance-state.ts';
import type { InstanceTags } from '../tables/instance-tags.ts';
import type { Messages } from '../tables/messages.ts';
import type { DedupeKeys, TaskItems } from '../tables/task-rows.ts';
import type { UpdateRows } from '../tables/update-rows.ts';
import type { RerunRows } from './rerun-rows.ts';

/** The parts of the store that run instances again. */
export interface RerunParts extends StoreAccess {
  readonly audit: Audit;
  readonly beginLimits: BeginLimits;
  readonly dedupeKeys: DedupeKeys;
  readonly definitions: Definitions;
  readonly deletedStarts: DeletedStarts;
  readonly instances: InstanceRows;
  readonly instanceState: InstanceState;
  readonly instanceTags: InstanceTags;
  readonly deadlines: InstanceDeadlines;
  readonly locks: InstanceLocks;
  readonly messages: Messages;
  readonly rerunRows: RerunRows;
  readonly taskItems: TaskItems;
  readonly taskRuns: TaskRuns;
  readonly turns: Turns;
  readonly updateRows: UpdateRows;
}

/** Retries and forks instances. */
export function createRerunStore(store: RerunParts): RerunStore {
  return {
    retryInstances: (retries) =>
      store.write('retryInstances', retries, (scope, one) =>
        isolated(scope, 'retryInstances', () => retry(store, scope, one)),
      ),

    forkInstances: (forks) =>
      store.write('forkInstances', forks, (scope, one) =>
        isolated(scope, 'forkInstances', () => fork(store, scope, one)),
      ),
  };
}

/** Runs the work of one item. An error rolls back only this one. */
function isolated<T>(scope: Scope, operation: string, work: () => T): T | RerunRefusal {
  const result = scope.isolate(operation, work);
  return result.ok ? result.value : { kind: 'refused', error: result.error };
}

function retry(store: RerunParts, scope: Scope, wanted: InstanceRetry): RetryResult {
  const { instances, rerunRows } = store;
  const row = instances.find(wanted.source.instanceId);
  const { audit, bulkKey } = wanted;
  if (audit !== undefined && bulkKey !== undefined) {
    if (isVisited(bulkKey, store.audit.progressOf(audit.auditId))) return { kind: 'repeated' };
  }
  const refusal = retryRefusal(row, wanted.source);
  if (row === undefined || refusal !== undefined) return refusal ?? { kind: 'missing' };
  if (rerunRows.hasJob(row.instanceKey)) return { kind: 'job' };
  const executionId = row.executionId + 1;
  const refused =
    row.isTask === 1
      ? retryTask(store, scope, { row, executionId, wanted })
      : retryOrchestration(store, scope, { row, executionId, wanted });
  if (refused !== undefined) return refused;
  store.deadlines.renew(row.instanceKey, scope.now);
  store.audit.record([toStep(wanted)], scope.now);
  return { kind: 'retried', executionId };
}

interface Retrying {
  readonly row: FullRow;
  readonly executionId: number;
  readonly wanted: InstanceRetry;
}

function retryTask(
  { rerunRows, dedupeKeys, taskItems, taskRuns }: RerunParts,
  scope: Scope,
  { row, wanted }: Retrying,
): RerunRefusal | undefined {
  const { now, effects } = scope;
  const { instanceKey, definitionKey } = row;
  if (rerunRows.hasItems(instanceKey)) return { kind: 'busy' };
  const task = rerunRows.taskOf(instanceKey);
  const dedupeKey = task?.dedupeKey ?? null;
  if (dedupeKey !== null) {
    const instanceId = dedupeKeys.holderOf(definitionKey, dedupeKey);
    if (instanceId !== undefined) return { kind: 'keyTaken', instanceId };
    dedupeKeys.take(definitionKey, dedupeKey, instanceKey);
  }
  rerunRows.reopenTask(instanceKey, wanted.taskInput, now);
  const priority = task?.priority ?? 0;
  const operation = taskOperation;
  const item = { instanceKey, operation, definitionKey, priority, options: null, now };
  const lane = taskRuns.laneOf(scope, row);
  taskItems.insert({ ...item, lane, nextAt: now, expiresAt: null });
  effects.due('work', now);
  return undefined;
}

function retryOrchestration(
  store: RerunParts,
  scope: Scope,
  { row, executionId, wanted }: Retrying,
): RerunRefusal | undefined {
  const { instanceKey } = row;
  const { name } = store.definitions.get(row.definitionKey);
  const { start, version } = wanted;
  // A caller passes it for every orchestration.
  if (start === undefined) throw new Error('The retry of an orchestration needs its start.');
  const holder = retakeKey(store, name, instanceKey);
  if (holder !== undefined) return { kind: 'keyTaken', instanceId: holder };
  const definitionKey = store.definitions.intern('orchestration', name, version);
  const historyLength = start.kept?.length ?? 0;
  store.updateRows.interrupt(instanceKey, row.status);
  store.rerunRows.reopen({
    instanceKey,
    definitionKey,
    historyLength,
    isStarted: historyLength > 0 ? 1 : 0,
    now: scope.now,
  });
  begin(store, scope, { start, source: row, target: { ...row, executionId, definitionKey } });
  return undefined;
}

/** Takes the dedupe key of an orchestration again. Returns the live instance that holds it; then nothing changes. */
function retakeKey(
  { rerunRows, definitions, dedupeKeys }: RerunParts,
  name: string,
  instanceKey: number,
): string | undefined {
  const dedupeKey = rerunRows.taskOf(instanceKey)?.dedupeKey ?? null;
  if (dedupeKey === null) return undefined;
  // All versions of an orchestration share its keys.
  const definitionKey = definitions.intern('orchestration', name, null);
  const holder = dedupeKeys.liveHolderOf(definitionKey, dedupeKey);
  if (holder === undefined) dedupeKeys.take(definitionKey, dedupeKey, instanceKey);
  return holder;
}

function fork(store: RerunParts, scope: Scope, wanted: InstanceFork): ForkResult {
  const { instances, definitions, rerunRows } = store;
  const { source, start, name, version } = wanted;
  if (store.deletedStarts.has(wanted)) return { kind: 'exists' };
  const row = instances.find(source.instanceId);
  const length = row && rerunRows.lengthOf(row.instanceKey, source.executionId);
  const refusal = forkRefusal(row, source, length);
  if (row === undefined || refusal !== undefined) return refusal ?? { kind: 'missing' };
  const { instanceId, incarnation, inputHash, forkedFrom } = wanted;
  const definitionKey = definitions.intern('orchestration', name, version);
  const historyLength = start.kept?.length ?? 0;
  const isStarted = historyLength > 0 ? 1 : 0;
  const { now } = scope;
  const own = { instanceId, incarnation, inputHash, forkedFrom };
  const instanceKey = rerunRows.insertFork({
    ...own,
    definitionKey,
    historyLength,
    isStarted,
    now,
  });
  if (instanceKey === undefined) {
    const existing = rerunRows.findFork(instanceId);
    if (existing === undefined) throw new Error('An existing instance cannot be read.');
    return existingFork(
      { ...existing, name: definitions.get(existing.definitionKey).name },
      { ...own, name },
    );
  }
  store.instanceTags.add(instanceKey, wanted.tags);
  store.deadlines.copy(row.instanceKey, instanceKey, now);
  store.beginLimits.copyLane(row.instanceKey, instanceKey);
  const target = {
    instanceKey,
    instanceId,
    incarnation,
    definitionKey,
    hasChildren: 0,
    isPaused: 0,
  } as const;
  begin(store, scope, {
    start,
    source: { instanceKey: row.instanceKey, executionId: source.executionId },
    target: { ...target, executionId: 1 },
  });
  store.audit.record([{ entry: wanted.audit, counts: { instances: 1 } }], now);
  return { kind: 'forked' };
}

/** Writes what a new execution begins with, and makes it claimable. */
function begin(
  { rerunRows, messages, locks, turns, instanceState }: RerunParts,
  scope: Scope,
  options: {
    readonly start: RerunStart;
    readonly source: { readonly instanceKey: number; readonly executionId: number };
    readonly target: Omit<TurnTarget, 'status' | 'historyLength' | 'hasLockRow'>;
  },
): void {
  const { start, source, target } = options;
  const { kept, cancel, turn } = start;
  const { now, effects } = scope;
  const { instanceKey, definitionKey } = target;
  const historyLength = kept?.length ?? 0;
  if (kept !== undefined) rerunRows.copyHistory({ ...kept, from: source, to: target });
  instanceState.replace(instanceKey, start.state ?? []);
  effects.statusSet.add(target.instanceId);
  for (const message of start.messages) messages.insert(instanceKey, message, now);
  locks.touch(instanceKey, definitionKey, now);
  if (cancel !== undefined) {
    const { reason } = cancel;
    const cleanupAt = now + Math.ceil(cancel.cleanupMs);
    rerunRows.setCancel({ instanceKey, ...toCancelRow(cancel), now });
    messages.insert(instanceKey, encodeMessage({ kind: 'cleanupExpired', reason }), cleanupAt);
    locks.limitCleanup({ instanceKey, definitionKey, now, cleanupAt });
  }
  const status = cancel === undefined ? 'running' : 'canceling';
  if (turn !== undefined) {
    turns.commit(scope, { ...target, status, historyLength, hasLockRow: true }, turn);
  }
  effects.due('orchestrations', now);
}
