import type { CreateResult, NewInstance } from '../../contract/instances.ts';
import type { StoredMessage } from '../../../model/message.ts';
import type { NewChild, Turn } from '../../contract/turn.ts';
import {
  detachedReply,
  mayReplaceChild,
  planExistingStart,
  replacedReason,
  replacedStatus,
  toDetachedStart,
  withTakenChildIds,
} from '../../rules/starts.ts';
import { replacedStarts } from '../../shared/deleted-starts.ts';
import { Changes, type Batch } from '../batches/batch.ts';
import type { CreateInstances } from '../batches/store-access.ts';
import type { Scope } from '../driver/scope.ts';
import type { Store } from '../store.ts';
import type { InstanceRow } from '../tables/instance-rows.ts';
import type { ParentCall } from '../tables/replaced-rows.ts';
import { createDebounced, keyScope } from './debounced-starts.ts';
import { enqueueLocked } from './enqueue.ts';

/** Whether a start may find, move, message or replace an instance instead of creating one. */
export function isIdentified({ dedupeKey, debounce, event, onConflict }: NewInstance): boolean {
  return [dedupeKey, debounce, event, onConflict].some((option) => option !== undefined);
}

type CreatePlain = (
  store: Store,
  ...args: Parameters<CreateInstances>
) => ReturnType<CreateInstances>;

/** Creates an instance, or finds, moves, messages or replaces the one of its id or its key. */
export async function createIdentified(
  store: Store,
  scope: Scope,
  instance: NewInstance,
  createPlain: CreatePlain,
): Promise<CreateResult> {
  const { instanceId, dedupeKey, dedupeMs, debounce, event } = instance;
  if (debounce !== undefined) {
    return createDebounced(store, scope, { ...instance, debounce }, () =>
      createPlain(store, scope, [instance]),
    );
  }
  if (dedupeKey !== undefined) {
    const active = await findActive(store, scope, { ...instance, dedupeKey });
    if (active !== undefined) return active;
  }
  const [result] = await createPlain(store, scope, [instance]);
  if (result === undefined) throw new Error('The start has no result.');
  if (result.kind === 'created') {
    if (dedupeKey !== undefined) {
      const definitionKey = await keyScope(store, scope, instance.name);
      await store.replacedRows.takeKey(scope.tx, {
        definitionKey,
        dedupeKey,
        instanceKey: result.instanceKey,
      });
      const { instanceKey } = result;
      const { tx, now } = scope;
      const run = { definitionKey, startKey: dedupeKey, instanceKey };
      if (dedupeMs !== undefined) await store.startKeys.addWindow(tx, run, { dedupeMs, now });
    }
    if (event !== undefined) await raise(store, scope, instanceId, event);
    return result;
  }
  if (result.kind === 'refused') return result;
  return useExistingStart(store, scope, instance);
}

/**
 * Finds the live instance that holds the dedupe key of a start, or the one of its window. Concurrent starts with the key wait
 * for this one.
 */
async function findActive(
  store: Store,
  scope: Scope,
  { instanceId, name, dedupeKey, dedupeMs, event }: NewInstance & { readonly dedupeKey: string },
): Promise<CreateResult | undefined> {
  const { tx } = scope;
  const definitionKey = await keyScope(store, scope, name);
  await store.replacedRows.lockKey(tx, { definitionKey, dedupeKey });
  // A known id comes first: a repeated start finds its own instance.
  const [own] = await store.instances.selectStarts(tx, [instanceId]);
  if (own !== undefined) return undefined;
  const live = await store.replacedRows.liveHolderOf(tx, { definitionKey, dedupeKey });
  const holder =
    live !== undefined || dedupeMs === undefined
      ? live
      : await store.startKeys.windowOf(tx, { definitionKey, startKey: dedupeKey }, scope.now);
  if (holder === undefined) return undefined;
  const raised = event && (await raise(store, scope, holder, event));
  return { kind: 'active', instanceId: holder, ...(raised !== undefined && { event: raised }) };
}

async function raise(
  store: Store,
  scope: Scope,
  instanceId: string,
  event: NonNullable<NewInstance['event']>,
) {
  const batch = store.newBatch(scope);
  await batch.instances.lock({ ids: [instanceId] });
  const [raised] = await enqueueLocked(store, batch, [{ instanceId, ...event }]);
  return raised;
}

/** Returns the result of a start whose id is taken: raises its event, or replaces the instance. */
async function useExistingStart(
  store: Store,
  scope: Scope,
  instance: NewInstance,
): Promise<CreateResult> {
  const { instanceId, event } = instance;
  const batch = store.newBatch(scope);
  await batch.instances.lock({ ids: [instanceId] });
  const row = batch.instances.find(instanceId);
  const [start] = await store.instances.selectStarts(scope.tx, [instanceId]);
  // Deleted between the statements: the caller repeats the start.
  if (row === undefined || start === undefined) return { kind: 'conflict', name: instance.name };
  await store.definitions.load(scope.tx, [start.definitionKey]);
  const { kind, name } = store.definitions.get(start.definitionKey);
  const existing = { kind, name, inputHash: start.inputHash, incarnation: row.incarnation };
  const plan = planExistingStart(existing, instance);
  if (plan === 'exists') return { kind: 'exists' };
  if (plan === 'raise' && event !== undefined) {
    const [raised] = await enqueueLocked(store, batch, [{ instanceId, ...event }]);
    return { kind: 'exists', ...(raised !== undefined && { event: raised }) };
  }
  const isReplaced = plan === 'replace' && (await replace(store, batch, instance));
  return isReplaced
    ? { kind: 'created', instanceKey: row.instanceKey, claimed: [] }
    : { kind: 'conflict', name };
}

/**
 * Terminates an instance and starts its next execution with a new input. Returns whether it could be replaced. A child is
 * replaced only by a call of its parent.
 */
async function replace(
  store: Store,
  batch: Batch,
  instance: NewInstance,
  call?: ParentCall,
): Promise<boolean> {
  const { scope, instances } = batch;
  const { tx, now } = scope;
  const { instanceId, name, version, inputHash, incarnation } = instance;
  const { replacedRows } = store;
  const before = instances.find(instanceId);
  if (before === undefined) return false;
  if (before.parentInstanceId !== null && call === undefined) return false;
  const { instanceKey } = before;
  if (await replacedRows.hasJob(tx, instanceKey)) return false;
  const termination = { reason: replacedReason, actor: null, cleanupMs: 0, tree: true };
  await store.stops.terminate(batch, [{ instanceKey, ...termination }]);
  await batch.changes.write(scope, store);
  // A canceled instance whose handlers still run has not ended yet.
  const ended = await replacedRows.findEnded(tx, instanceKey);
  if (ended === undefined) return false;
  await store.deletedStarts.add(tx, replacedStarts(before, now), now);
  const keyOf = await store.definitions.intern(scope, [{ kind: 'orchestration', name, version }]);
  const definitionKey = keyOf('orchestration', name, version);
  await store.instanceTags.deleteOfInstances(tx, [instanceKey]);
  await store.updateRows.interrupt(tx, instanceKey, replacedStatus(before));
  await store.instanceState.replace(tx, instanceKey, []);
  await replacedRows.reopen(tx, { instanceKey, definitionKey, inputHash, incarnation, now });
  if (call !== undefined) await replacedRows.setCall(tx, { instanceKey, ...call });
  await store.deadlines.deleteOfInstances(tx, [instanceKey]);
  await store.deadlines.add(tx, [{ instanceKey, times: instance }], now);
  await store.instanceTags.add(tx, [{ instanceKey, tags: instance.tags }]);
  await store.instanceHeaders.add(tx, [{ instanceKey, headers: instance.headers }]);
  await store.beginLimits.addLanes(tx, [{ instanceKey, lane: instance.lane }]);
  const childIds = await replacedRows.childIds(tx, instanceId);
  const start = withTakenChildIds(instance.start, instanceId, childIds);
  const changes = new Changes();
  changes.start(scope, { instanceKey, definitionKey }, { ...instance, start });
  await changes.write(scope, store);
  return true;
}

/** A start by a turn that may find, message or replace another instance. */
interface IdentifiedStart {
  readonly target: InstanceRow;
  readonly turn: Turn;
  readonly child: NewChild;
}

/** Starts an instance after the writes of its turn, and replies to the starting instance. */
export async function startIdentified(
  store: Store,
  scope: Scope,
  { target, turn, child }: IdentifiedStart,
  createPlain: CreatePlain,
): Promise<void> {
  const { parentOperation } = child;
  const reply =
    parentOperation === null
      ? detachedReply(
          target,
          child,
          await createIdentified(store, scope, toDetachedStart(child), createPlain),
        )
      : await finishChild(store, scope, target, { ...child, parentOperation });
  if (reply === null || turn.outcome.status !== 'running') return;
  await raise(store, scope, target.instanceId, { message: reply });
}

/** Raises the event of a new child, or replaces an earlier one. */
async function finishChild(
  store: Store,
  scope: Scope,
  { instanceId: parentId, executionId }: InstanceRow,
  child: NewChild & { readonly parentOperation: number },
): Promise<StoredMessage | null> {
  const { instanceId, event, cancellation, parentOperation: operation } = child;
  const batch = store.newBatch(scope);
  await batch.instances.lock({ ids: [instanceId] });
  const row = batch.instances.find(instanceId);
  if (row === undefined) return child.ifTaken;
  if (row.incarnation === child.incarnation) {
    if (event !== undefined) await enqueueLocked(store, batch, [{ instanceId, ...event }]);
    return null;
  }
  // The turn has replied to a child without `onConflict` that its id is taken.
  if (child.onConflict === undefined) return null;
  await store.definitions.load(scope.tx, [row.definitionKey]);
  const { name } = store.definitions.get(row.definitionKey);
  const isOwn = mayReplaceChild({ ...row, name }, child, { instanceId: parentId, executionId });
  const call = { operation, cancellation };
  const isReplaced = isOwn && (await replace(store, batch, toDetachedStart(child), call));
  return isReplaced ? null : child.ifTaken;
}
