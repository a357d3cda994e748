import type { CreateResult, NewInstance } from '../../contract/instances.ts';
import { startsAt } from '../../rules/deadlines.ts';
import { movedDelay } from '../../rules/start-keys.ts';
import type { Scope } from '../driver/scope.ts';
import type { Store } from '../store.ts';

/** A start with a debounce key. */
type DebouncedStart = NewInstance & Required<Pick<NewInstance, 'debounce'>>;

/** All versions of an orchestration share its keys. */
export async function keyScope(
  { definitions }: Store,
  scope: Scope,
  name: string,
): Promise<number> {
  const wanted = { kind: 'orchestration', name, version: null } as const;
  const keyOf = await definitions.intern(scope, [wanted]);
  return keyOf('orchestration', name, null);
}

/** Locks the debounce keys of starts, and their instances, before the first one is moved. */
export async function lockDebounced(
  store: Store,
  scope: Scope,
  instances: readonly NewInstance[],
): Promise<void> {
  const debounced = instances.filter(({ debounce }) => debounce !== undefined);
  if (debounced.length === 0) return;
  await scope.begin();
  const keyOf = await store.definitions.intern(
    scope,
    debounced.map(({ name }) => ({ kind: 'orchestration', name, version: null })),
  );
  const keys = debounced.map(({ name, debounce }) => ({
    definitionKey: keyOf('orchestration', name, null),
    kind: 'debounce' as const,
    startKey: debounce?.key ?? '',
  }));
  await store.startKeys.lock(scope.tx, keys);
  const runs = await store.startKeys.debounced(scope.tx, keys);
  await store.movedStarts.lock(
    scope.tx,
    runs.map(({ instanceKey }) => instanceKey),
  );
}

/** Moves the instance of a debounce key that has not started, or creates one. The key is locked. */
export async function createDebounced(
  store: Store,
  scope: Scope,
  instance: DebouncedStart,
  createPlain: () => Promise<readonly CreateResult[]>,
): Promise<CreateResult> {
  const { tx, now } = scope;
  const { name, debounce } = instance;
  const key = { definitionKey: await keyScope(store, scope, name), startKey: debounce.key };
  const moved = await move(store, scope, instance, key);
  if (moved !== undefined) return { kind: 'active', instanceId: moved };
  const [result] = await createPlain();
  if (result === undefined) throw new Error('The start has no result.');
  if (result.kind !== 'created') return result;
  const { requestKey } = debounce;
  const run = { ...key, instanceKey: result.instanceKey, requestKey };
  await store.startKeys.addDebounced(tx, run, { startsAt: startsAt(instance, now), now });
  return result;
}

async function move(
  store: Store,
  scope: Scope,
  instance: DebouncedStart,
  key: { readonly definitionKey: number; readonly startKey: string },
): Promise<string | undefined> {
  const { tx, now, effects } = scope;
  const { name, version, debounce, tags } = instance;
  const { requestKey } = debounce;
  const [run] = await store.startKeys.debounced(tx, [key]);
  if (run === undefined || run.requestKey === requestKey) return run?.instanceId;
  const { instanceKey, instanceId, createdAt } = run;
  const [[row], locks] = await Promise.all([
    store.instances.select(tx, [instanceKey]),
    store.locks.lock(tx, [instanceKey], scope.nowParameter),
  ]);
  // Execution 1: a retried or replaced instance has started before.
  const hasStarted =
    row?.status !== 'pending' ||
    row.executionId !== 1 ||
    locks.get(instanceKey)?.lockToken !== null;
  if (hasStarted) return undefined;
  const delayMs = movedDelay(instance, { createdAt, now });
  const keyOf = await store.definitions.intern(scope, [{ kind: 'orchestration', name, version }]);
  const definitionKey = keyOf('orchestration', name, version);
  const dueAt = now + delayMs;
  const { isPaused } = row;
  const hasFreedPlace = await store.movedStarts.moveInstance(tx, instanceKey, instance, {
    definitionKey,
    startsAt: dueAt,
    isPaused,
  });
  await Promise.all([
    store.locks.refresh(tx, [instanceKey]),
    store.deadlines.replace(tx, { instanceKey, times: { ...instance, delayMs } }, now),
    store.instanceTags.replace(tx, { instanceKey, tags }),
    store.startKeys.moved(tx, { ...key, requestKey }, dueAt),
  ]);
  effects.due('orchestrations', hasFreedPlace ? now : dueAt);
  return instanceId;
}
