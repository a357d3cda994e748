import { ProviderError } from '../../../model/failures/errors.ts';
import type {
  CreateResult,
  InstanceConditions,
  InstanceStore,
  NewInstance,
} from '../../contract/instances.ts';
import type { ClaimedAtInsert } from '../../contract/turn.ts';
import type { WorkerList } from '../../contract/workers.ts';
import { existingStart } from '../../rules/starts.ts';
import type { Batch } from '../batches/batch.ts';
import type { DefinitionKeys } from '../tables/definitions.ts';
import {
  newInstanceRow,
  type InstanceRow,
  type PendingRow,
  type StartRow,
} from '../tables/instance-rows.ts';
import type { Scope } from '../driver/scope.ts';
import type { Store } from '../store.ts';
import { enoughTurns } from '../batches/batching.ts';
import { lockDebounced } from './debounced-starts.ts';
import {
  createIdentified,
  isIdentified,
  startIdentified as startIdentifiedChild,
} from './existing-starts.ts';
import { enqueue } from './enqueue.ts';
import { addressees, wantedDefinitions, type StartIdentified, type TurnCommit } from './turns.ts';

/** The PostgreSQL `InstanceStore`: creates, messages and reads instances. */
export function createInstanceStore(store: Store): InstanceStore {
  return {
    createInstances: store.batching({
      operation: 'createInstances',
      run: (scope, instances) => create(store, scope, instances),
      runSingleStatement: async (instances: readonly NewInstance[]) =>
        (await store.singleStatementStarts.create(instances, store.nowParameter)) ??
        (await store.singleStatementPendingStarts.create(instances, store.nowParameter)),
      refused: (error): CreateResult => ({ kind: 'refused', error }),
      maxInFlight: 2,
      enoughItems: enoughTurns,
    }),

    // One transaction at a time, so that messages of a caller to an instance keep their order.
    enqueueMessages: store.batching({
      operation: 'enqueueMessages',
      run: (scope, messages) => enqueue(store, scope, messages),
      maxInFlight: 1,
    }),

    getInstances: (instanceIds, maxBytes) =>
      store.read('getInstances', (tx) => store.instanceRecords.get(tx, instanceIds, maxBytes)),

    async listInstances(params) {
      const workers = await workersFor(store, params.filter);
      return store.read('listInstances', (tx) => store.instanceRecords.list(tx, params, workers));
    },

    async countInstances(params) {
      const workers = await workersFor(store, params.filter);
      return store.read('countInstances', (tx) => store.instanceList.count(tx, params, workers));
    },

    listDefinitions: (params) =>
      store.read('listDefinitions', (tx) => store.instanceList.definitions(tx, params)),

    listExecutions: (params) =>
      store.read('listExecutions', (tx) => store.instanceRecords.listExecutions(tx, params)),

    readHeaders: (instanceKeys) =>
      store.read('readHeaders', (tx) => store.instanceHeaders.read(tx, instanceKeys)),

    readInstanceHistory: ({ instanceId, maxBytes, ...range }) =>
      store.read('readInstanceHistory', async (tx) => {
        const instanceKey = await store.instanceRecords.keyOf(tx, instanceId);
        if (instanceKey === undefined) return [];
        if (maxBytes !== undefined) {
          return store.history.readWithin(tx, { ...range, instanceKey, maxBytes });
        }
        const [events = []] = await store.history.read(tx, [{ ...range, instanceKey }]);
        return events;
      }),
  };
}

/** The workers, if a condition depends on them. */
async function workersFor(
  store: Store,
  { unregistered }: InstanceConditions,
): Promise<WorkerList | undefined> {
  return unregistered === undefined ? undefined : await store.workers.list();
}

/** Creates instances, or finds those of their starts. */
export function create(
  store: Store,
  scope: Scope,
  instances: readonly NewInstance[],
): Promise<readonly CreateResult[]> {
  return store.deletedStarts.createUnlessDeleted(scope.tx, instances, (open) =>
    createAll(store, scope, open),
  );
}

async function createAll(
  store: Store,
  scope: Scope,
  instances: readonly NewInstance[],
): Promise<readonly CreateResult[]> {
  const plain = instances.filter((instance) => !isIdentified(instance));
  const results = new Map<NewInstance, CreateResult>();
  const created = await createPlain(store, scope, plain);
  for (const [index, instance] of plain.entries()) {
    const result = created[index];
    if (result !== undefined) results.set(instance, result);
  }
  await lockDebounced(store, scope, instances);
  // One at a time: each may find, move, message or replace an instance.
  for (const instance of instances) {
    if (!isIdentified(instance)) continue;
    results.set(instance, await createIdentified(store, scope, instance, createPlain));
  }
  return instances.flatMap((instance) => results.get(instance) ?? []);
}

/** Starts an instance that a turn identifies by an event or `onConflict`. */
export const startIdentified =
  (store: Store): StartIdentified =>
  (scope, start) =>
    startIdentifiedChild(store, scope, start, createPlain);

/** Creates instances with their start messages or their first turns. */
async function createPlain(
  store: Store,
  scope: Scope,
  instances: readonly NewInstance[],
): Promise<readonly CreateResult[]> {
  const batch = store.newBatch(scope);
  const receivers = addressees(instances.flatMap(({ firstTurn }) => firstTurn ?? []));
  await scope.begin(receivers.length === 0 ? undefined : batch.instances.lock({ ids: receivers }));
  const keyOf = await store.definitions.intern(scope, instances.flatMap(wantedOf));
  const valid = instances.filter((instance) => refusal(instance) === undefined);
  const { starts, taken } = await insert(store, batch, valid, keyOf);
  const isRepeated = starts.size < valid.length;
  const existing = isRepeated ? [...Array.from(starts.values(), toStartRow), ...taken] : [];
  const existingResult = await existingStarts(store, scope, existing);
  await store.instanceTags.add(
    scope.tx,
    Array.from(starts.values(), ({ instance: { tags }, row: { instanceKey } }) => ({
      instanceKey,
      tags,
    })),
  );
  await store.instanceHeaders.add(
    scope.tx,
    Array.from(starts.values(), ({ instance: { headers }, row: { instanceKey } }) => ({
      instanceKey,
      headers,
    })),
  );
  await store.beginLimits.addLanes(
    scope.tx,
    Array.from(starts.values(), ({ instance: { lane }, row: { instanceKey } }) => ({
      instanceKey,
      lane,
    })),
  );
  await store.deadlines.add(
    scope.tx,
    Array.from(starts.values(), ({ instance: times, row: { instanceKey } }) => ({
      instanceKey,
      times,
    })),
    scope.now,
  );
  const claimed = await commitStarts(store, batch, [...starts.values()]);
  return instances.map((instance): CreateResult => {
    const refused = refusal(instance);
    if (refused !== undefined) return refused;
    const start = starts.get(instance.instanceId);
    // The first start of an id creates the instance; later ones of the batch repeat it.
    starts.delete(instance.instanceId);
    if (start === undefined) return existingResult(instance);
    const { instanceKey } = start.row;
    const ofTurn = claimed.get(instanceKey);
    const withoutTurn = instance.firstTurn !== undefined && ofTurn === undefined;
    return {
      kind: 'created',
      instanceKey,
      claimed: ofTurn ?? [],
      ...(withoutTurn && { withoutTurn }),
    };
  });
}

interface Start {
  readonly instance: NewInstance;
  readonly row: InstanceRow;
}

/** Inserts instances. Returns those whose ids were free, by id, and the starts that hold the other ids. */
async function insert(
  store: Store,
  { scope, instances: locked }: Batch,
  instances: readonly NewInstance[],
  keyOf: DefinitionKeys,
): Promise<{ readonly starts: Map<string, Start>; readonly taken: readonly StartRow[] }> {
  const starts = new Map<string, Start>();
  const taken: StartRow[] = [];
  let open = instances.map((instance) => ({ ...toPendingRow(instance, keyOf), instance }));
  // Repeats for an id whose instance was deleted before it could be read.
  while (open.length > 0) {
    const inserted = await store.instances.insertPending(scope.tx, open, scope.now);
    for (const { instance, instanceId, incarnation, definitionKey } of open) {
      const created = inserted.get(instanceId);
      if (created === undefined || starts.has(instanceId)) continue;
      const row = newInstanceRow({ ...created, instanceId, incarnation, definitionKey });
      locked.set(row);
      starts.set(instanceId, { instance, row });
    }
    const others = open.filter(({ instanceId }) => !starts.has(instanceId));
    const found = await store.instances.selectStarts(
      scope.tx,
      others.map(({ instanceId }) => instanceId),
    );
    taken.push(...found);
    const foundIds = new Set(found.map(({ instanceId }) => instanceId));
    open = others.filter(({ instanceId }) => !foundIds.has(instanceId));
  }
  return { starts, taken };
}

/** Returns a function that resolves starts whose ids are taken by one of `existing`. */
async function existingStarts(
  { definitions }: Store,
  { tx }: Scope,
  existing: readonly StartRow[],
): Promise<(instance: NewInstance) => CreateResult> {
  await definitions.load(
    tx,
    existing.map(({ definitionKey }) => definitionKey),
  );
  const byId = new Map(existing.map((start) => [start.instanceId, start]));
  return ({ instanceId, name, inputHash }) => {
    const start = byId.get(instanceId);
    if (start === undefined)
      throw new Error(`Instance ${JSON.stringify(instanceId)} was neither created nor found.`);
    const existing = { ...start, ...definitions.get(start.definitionKey) };
    return existingStart(existing, { kind: 'orchestration', name, inputHash });
  };
}

/** Sends start messages or commits first turns. Returns the claimed work items by instance key, for those with a committed turn. */
async function commitStarts(
  store: Store,
  batch: Batch,
  starts: readonly Start[],
): Promise<ReadonlyMap<number, readonly ClaimedAtInsert[]>> {
  const commits: TurnCommit[] = [];
  const held = await heldBackNames(store, batch, starts);
  for (const { instance, row } of starts) {
    const { firstTurn: turn } = instance;
    if (turn === undefined || held.has(instance.name))
      batch.changes.start(batch.scope, row, instance);
    else commits.push({ target: row, hasLockRow: false, turn });
  }
  if (commits.length === 0) {
    await batch.changes.write(batch.scope, store);
    return new Map();
  }
  const claimed = await store.turns.commit(batch, commits);
  return new Map(commits.map(({ target }, index) => [target.instanceKey, claimed[index] ?? []]));
}

/** The orchestrations whose starts must not run their first turns: paused or limited ones. */
async function heldBackNames(
  { pauseRows, beginLimits }: Store,
  { scope: { tx } }: Batch,
  starts: readonly Start[],
): Promise<ReadonlySet<string>> {
  if (starts.every(({ instance }) => instance.firstTurn === undefined)) return new Set();
  const [paused, gates] = await Promise.all([
    starts.some(({ row }) => row.hasPausedDefinitions)
      ? pauseRows.selectPausedNames(tx, 'orchestration')
      : new Set<string>(),
    beginLimits.gates(tx),
  ]);
  return new Set([...paused, ...gates.map(({ name }) => name)]);
}

function wantedOf({ name, version, firstTurn }: NewInstance) {
  return firstTurn === undefined
    ? [{ kind: 'orchestration' as const, name, version }]
    : wantedDefinitions(name, firstTurn);
}

function toPendingRow(instance: NewInstance, keyOf: DefinitionKeys): PendingRow {
  const { instanceId, incarnation, inputHash, name, version, firstTurn } = instance;
  const picked = firstTurn === undefined ? version : firstTurn.version;
  const definitionKey = keyOf('orchestration', name, picked);
  return { instanceId, incarnation, inputHash, definitionKey, parent: null, cancellation: null };
}

function toStartRow({ instance: { instanceId, inputHash }, row }: Start): StartRow {
  return { instanceId, inputHash, definitionKey: row.definitionKey };
}

function refusal({ instanceId, firstTurn }: NewInstance): CreateResult | undefined {
  if (firstTurn === undefined || firstTurn.firstEventId === 1) return undefined;
  const error = new ProviderError({
    operation: 'createInstances',
    message: `createInstances: the first turn of ${JSON.stringify(instanceId)} starts at event ${firstTurn.firstEventId}. It must start at event 1.`,
    retryable: false,
  });
  return { kind: 'refused', error };
}
