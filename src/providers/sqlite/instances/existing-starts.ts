import type { CreateResult, NewInstance } from '../../contract/instances.ts';
import { startsAt } from '../../rules/deadlines.ts';
import { movedDelay } from '../../rules/start-keys.ts';
import {
  planExistingStart,
  replacedReason,
  replacedStatus,
  withTakenChildIds,
} from '../../rules/starts.ts';
import { replacedStarts } from '../../shared/deleted-starts.ts';
import type { DeferredWrites } from '../batches/deferred-writes.ts';
import type { Scope } from '../batches/group-commit.ts';
import type { InstanceStops } from '../stopping/instance-stops.ts';
import type { Definitions } from '../tables/definitions.ts';
import type { InstanceDeadlines } from '../tables/instance-deadlines.ts';
import type { BeginLimits } from '../limits/begin-limits.ts';
import type { InstanceHeaders } from '../tables/instance-headers.ts';
import type { InstanceTags } from '../tables/instance-tags.ts';
import type { InstanceState } from '../tables/instance-state.ts';
import type { DeletedStarts } from '../starts/deleted-starts.ts';
import type { MovedStarts } from '../starts/moved-starts.ts';
import type { ParentCall, ReplacedRows } from '../tables/replaced-rows.ts';
import type { StartKeys } from '../starts/start-keys.ts';
import type { DedupeKeys } from '../tables/task-rows.ts';
import type { UpdateRows } from '../tables/update-rows.ts';
import { enqueue, type EnqueueParts } from './enqueue.ts';

/** The parts of the store that find or replace the instance of a start. */
export interface ExistingStartParts extends EnqueueParts {
  readonly deadlines: InstanceDeadlines;
  readonly deferredWrites: DeferredWrites;
  readonly dedupeKeys: DedupeKeys;
  readonly definitions: Definitions;
  readonly deletedStarts: DeletedStarts;
  readonly beginLimits: BeginLimits;
  readonly instanceHeaders: InstanceHeaders;
  readonly instanceState: InstanceState;
  readonly instanceTags: InstanceTags;
  readonly movedStarts: MovedStarts;
  readonly replacedRows: ReplacedRows;
  readonly startKeys: StartKeys;
  readonly stops: InstanceStops;
  readonly updateRows: UpdateRows;
}

/**
 * Finds the instance that a start returns by its key. For a dedupe key, it is the live instance or that of the window. For a
 * debounce key, it is the waiting instance, which the start moves. `undefined`: the start creates its instance.
 */
export function findActive(
  store: ExistingStartParts,
  scope: Scope,
  instance: NewInstance,
): CreateResult | undefined {
  const { instanceId, name, dedupeKey, dedupeMs, debounce, event } = instance;
  const moved = debounce && move(store, scope, { ...instance, debounce });
  if (moved !== undefined) return { kind: 'active', instanceId: moved };
  if (dedupeKey === undefined) return undefined;
  // A known id comes first: a repeated start finds its own instance.
  if (store.instances.findStart(instanceId) !== undefined) return undefined;
  const definitionKey = keyScope(store, name);
  const live = store.dedupeKeys.liveHolderOf(definitionKey, dedupeKey);
  const holder =
    live !== undefined || dedupeMs === undefined
      ? live
      : store.startKeys.windowOf(definitionKey, dedupeKey, scope.now);
  if (holder === undefined) return undefined;
  const raised = event && enqueue(store, scope, { instanceId: holder, ...event });
  return { kind: 'active', instanceId: holder, ...(raised !== undefined && { event: raised }) };
}

/** Gives the key of a start to its new instance. A dedupe key stays with an ended one until another start takes it. */
function takeKey(
  store: ExistingStartParts,
  { now }: Scope,
  instance: NewInstance,
  instanceKey: number,
): void {
  const { name, dedupeKey, dedupeMs, debounce } = instance;
  if (debounce !== undefined) {
    const run = { instanceKey, startsAt: startsAt(instance, now), now };
    store.startKeys.addDebounced(keyScope(store, name), debounce, run);
  }
  if (dedupeKey === undefined) return;
  const definitionKey = keyScope(store, name);
  store.dedupeKeys.takeFor(definitionKey, dedupeKey, instanceKey);
  const window = { definitionKey, key: dedupeKey, instanceKey };
  if (dedupeMs !== undefined) store.startKeys.addWindow(window, dedupeMs, now);
}

/** Creates an instance with its start message, its key and its event. Returns `undefined` if the id is taken. */
export function createPending(
  store: ExistingStartParts,
  scope: Scope,
  instance: NewInstance,
): CreateResult | undefined {
  const { now, effects } = scope;
  const definitionKey = store.definitions.intern('orchestration', instance.name, instance.version);
  const instanceKey = store.instances.insertPending({ instance, definitionKey, parent: null, now });
  if (instanceKey === undefined) return undefined;
  store.instanceTags.add(instanceKey, instance.tags);
  store.instanceHeaders.add(instanceKey, instance.headers);
  store.beginLimits.addLane(instanceKey, instance.lane);
  store.deadlines.add(instanceKey, instance, now);
  const visibleAt = startsAt(instance, now);
  if (visibleAt > now) store.instances.setRunAt(instanceKey, visibleAt);
  store.messages.insert(instanceKey, instance.start, visibleAt);
  store.locks.touch(instanceKey, definitionKey, visibleAt);
  effects.due('orchestrations', visibleAt);
  takeKey(store, scope, instance, instanceKey);
  const { instanceId, event } = instance;
  if (event !== undefined) enqueue(store, scope, { instanceId, ...event });
  return { kind: 'created', instanceKey, claimed: [] };
}

/** Moves the instance of a debounce key that has not started. Returns its id, or `undefined` if there is none. */
function move(
  store: ExistingStartParts,
  { now, effects }: Scope,
  instance: NewInstance & Required<Pick<NewInstance, 'debounce'>>,
): string | undefined {
  const { name, version, debounce } = instance;
  const scopeKey = keyScope(store, name);
  const run = store.startKeys.debounced(scopeKey, debounce.key);
  if (run === undefined || run.requestKey === debounce.requestKey) return run?.instanceId;
  const { instanceKey, instanceId, createdAt } = run;
  const delayMs = movedDelay(instance, { createdAt, now });
  const definitionKey = store.definitions.intern('orchestration', name, version);
  const times = { definitionKey, startsAt: now + delayMs };
  if (!store.movedStarts.moveInstance(instanceKey, instance, times)) return undefined;
  store.locks.refresh(instanceKey);
  store.deadlines.replace(instanceKey, { ...instance, delayMs }, now);
  store.instanceTags.replace(instanceKey, instance.tags);
  store.startKeys.moved(scopeKey, debounce, times.startsAt);
  effects.due('orchestrations', times.startsAt);
  return instanceId;
}

/** All versions of an orchestration share its keys. */
function keyScope({ definitions }: ExistingStartParts, name: string): number {
  return definitions.intern('orchestration', name, null);
}

/** Returns the result of a start whose id is taken: raises its event, or replaces the instance. */
export function useExistingStart(
  store: ExistingStartParts,
  scope: Scope,
  instance: NewInstance,
): CreateResult {
  const { instanceId, event } = instance;
  const row = store.instances.find(instanceId);
  const start = store.instances.findStart(instanceId);
  if (row === undefined || start === undefined) {
    throw new Error('An existing instance cannot be read.');
  }
  const { kind, name } = store.definitions.get(start.definitionKey);
  const existing = { kind, name, inputHash: start.inputHash, incarnation: row.incarnation };
  const plan = planExistingStart(existing, instance);
  if (plan === 'exists') return { kind: 'exists' };
  if (plan === 'raise' && event !== undefined) {
    return { kind: 'exists', event: enqueue(store, scope, { instanceId, ...event }) };
  }
  const isReplaced = plan === 'replace' && replace(store, scope, instance);
  return isReplaced
    ? { kind: 'created', instanceKey: row.instanceKey, claimed: [] }
    : { kind: 'conflict', name };
}

/**
 * Terminates an instance and starts its next execution with a new input. Returns whether it could be replaced. A child is
 * replaced only by a call of its parent.
 */
export function replace(
  store: ExistingStartParts,
  scope: Scope,
  instance: NewInstance,
  call?: ParentCall,
): boolean {
  const { replacedRows } = store;
  const { instanceId, name, version, inputHash, incarnation } = instance;
  const { now, effects } = scope;
  const before = store.instances.find(instanceId);
  if (before === undefined) return false;
  if (before.parentInstanceId !== null && call === undefined) return false;
  const { instanceKey } = before;
  if (replacedRows.hasJob(instanceKey)) return false;
  // An earlier turn of the group may have ended the instance: its clean-up must not delete the new start.
  store.deferredWrites.flush();
  const termination = { reason: replacedReason, actor: null, cleanupMs: 0, tree: true };
  store.stops.terminate(scope, before, termination);
  // A canceled instance whose handlers still run has not ended yet.
  if (!replacedRows.hasEnded(instanceKey)) return false;
  store.deletedStarts.add(replacedStarts(before, now), now);
  const keys = JSON.stringify([instanceKey]);
  store.instanceTags.deleteOfInstances(keys);
  const definitionKey = store.definitions.intern('orchestration', name, version);
  store.updateRows.interrupt(instanceKey, replacedStatus(before));
  store.instanceState.replace(instanceKey, []);
  replacedRows.reopen({ instanceKey, definitionKey, inputHash, incarnation, now });
  if (call !== undefined) replacedRows.setCall(instanceKey, call);
  store.deadlines.deleteOfInstances(keys);
  store.deadlines.add(instanceKey, instance, now);
  store.instanceTags.add(instanceKey, instance.tags);
  store.instanceHeaders.add(instanceKey, instance.headers);
  store.beginLimits.addLane(instanceKey, instance.lane);
  const start = withTakenChildIds(instance.start, instanceId, replacedRows.childIds(instanceId));
  const visibleAt = startsAt(instance, now);
  store.messages.insert(instanceKey, start, visibleAt);
  store.locks.touch(instanceKey, definitionKey, visibleAt);
  effects.due('orchestrations', visibleAt);
  return true;
}
