import { ProviderError } from '../../../model/failures/errors.ts';
import type {
  CreateResult,
  EnqueueResult,
  InstanceStore,
  NewInstance,
  NewMessage,
} from '../../contract/instances.ts';
import type { Turn } from '../../contract/turn.ts';
import type { Batch } from '../batches/changes.ts';
import type { DefinitionKeys, WantedDefinition } from '../tables/definitions.ts';
import { isOver, type InstanceRow, type StartRow } from '../tables/instance-rows.ts';
import type { Scope } from '../driver/scope.ts';
import type { Store } from '../store.ts';
import { enoughTurns } from '../batches/batching.ts';
import { addressees, wantedDefinitions } from './turns.ts';

/** Creation, messages and reads of instances. */
export function createInstanceStore(store: Store): InstanceStore {
  return {
    createInstances: store.batching({
      operation: 'createInstances',
      run: (scope, instances) => create(store, scope, instances),
      runPlain: (instances: readonly NewInstance[]) =>
        store.plainStarts.create(instances, store.nowParameter),
      refused: (error): CreateResult => ({ kind: 'refused', error }),
      maxInFlight: 2,
      enoughItems: enoughTurns,
    }),

    // One after the other: messages of one caller to one instance keep their order.
    enqueueMessages: store.batching({
      operation: 'enqueueMessages',
      run: (scope, messages) => enqueue(store, scope, messages),
      maxInFlight: 1,
    }),

    getInstances: (instanceIds, maxBytes) =>
      store.read('getInstances', (tx) => store.instanceRecords.get(tx, instanceIds, maxBytes)),

    listInstances: (params) =>
      store.read('listInstances', (tx) => store.instanceRecords.list(tx, params)),

    listExecutions: (params) =>
      store.read('listExecutions', (tx) => store.instanceRecords.listExecutions(tx, params)),

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

/** Creates instances, with their start messages or their first turns. */
export async function create(
  store: Store,
  scope: Scope,
  instances: readonly NewInstance[],
): Promise<readonly CreateResult[]> {
  const batch = store.newBatch(scope);
  const turns = instances.flatMap(({ firstTurn }) => firstTurn ?? []);
  const ids = addressees(turns);
  await scope.begin(ids.length === 0 ? undefined : batch.instances.lock({ ids }));
  const keyOf = await store.definitions.intern(scope, instances.flatMap(wantedOf));
  const wanted = instances.filter((instance) => misplacedTurn(instance) === undefined);
  const { keys, taken } = await insert(store, scope, wanted, keyOf);
  const known = await knownStarts(store, scope, instances, taken);
  const created: { instance: NewInstance; row: InstanceRow }[] = [];
  const results = instances.map((instance): CreateResult => {
    const error = misplacedTurn(instance);
    if (error !== undefined) return { kind: 'refused', error };
    const instanceKey = keys.get(instance.instanceId);
    // The first of an id has it; those that follow are repeats.
    keys.delete(instance.instanceId);
    if (instanceKey === undefined) return known(instance);
    const row = newRow(instance, instanceKey, definitionKeyOf(instance, keyOf));
    created.push({ instance, row });
    batch.instances.set(row);
    return { kind: 'created', instanceKey, claimed: [] };
  });
  return commitStarts(store, batch, { results, created });
}

/** Inserts the rows of instances; answers the keys of those whose ids were free, and who has the others. */
async function insert(
  store: Store,
  scope: Scope,
  instances: readonly NewInstance[],
  keyOf: DefinitionKeys,
): Promise<{ readonly keys: Map<string, number>; readonly taken: readonly StartRow[] }> {
  const keys = new Map<string, number>();
  const taken: StartRow[] = [];
  let open = instances;
  // Again, where whoever had an id was deleted before it could be read.
  while (open.length > 0) {
    const rows = open.map((instance) => ({
      ...instance,
      definitionKey: definitionKeyOf(instance, keyOf),
      parent: null,
      cancellation: null,
    }));
    const inserted = await store.instances.insertPending(scope.tx, rows, scope.now);
    for (const [instanceId, key] of inserted) keys.set(instanceId, key);
    const others = open.filter(({ instanceId }) => !keys.has(instanceId));
    const starts = await store.instances.selectStarts(
      scope.tx,
      others.map(({ instanceId }) => instanceId),
    );
    taken.push(...starts);
    const met = new Set(starts.map(({ instanceId }) => instanceId));
    open = others.filter(({ instanceId }) => !met.has(instanceId));
  }
  return { keys, taken };
}

/** Enqueues the start messages of the instances, or commits their first turns. */
async function commitStarts(
  store: Store,
  batch: Batch,
  {
    results,
    created,
  }: {
    readonly results: readonly CreateResult[];
    readonly created: readonly { readonly instance: NewInstance; readonly row: InstanceRow }[];
  },
): Promise<readonly CreateResult[]> {
  const commits: { target: InstanceRow; hasLockRow: false; turn: Turn }[] = [];
  for (const { instance, row } of created) {
    const { firstTurn: turn, start } = instance;
    if (turn === undefined) batch.changes.send(batch.scope, row, start);
    else commits.push({ target: row, hasLockRow: false, turn });
  }
  if (commits.length === 0) {
    await batch.changes.write(batch.scope, store);
    return results;
  }
  const claimed = await store.turns.commit(batch, commits);
  const byKey = new Map(commits.map(({ target }, index) => [target.instanceKey, claimed[index]]));
  return results.map((result) =>
    result.kind === 'created'
      ? { ...result, claimed: byKey.get(result.instanceKey) ?? [] }
      : result,
  );
}

/** Answers for ids that are taken. */
async function knownStarts(
  store: Store,
  scope: Scope,
  instances: readonly NewInstance[],
  taken: readonly StartRow[],
): Promise<(instance: NewInstance) => CreateResult> {
  const starts = new Map<string, Pick<StartRow, 'inputHash'> & WantedDefinition>();
  // Of those that are new here, the first may be followed by repeats.
  for (const { instanceId, name, inputHash } of instances.toReversed()) {
    starts.set(instanceId, { kind: 'orchestration', name, version: null, inputHash });
  }
  await store.definitions.load(
    scope.tx,
    taken.map(({ definitionKey }) => definitionKey),
  );
  for (const { instanceId, definitionKey, inputHash } of taken) {
    starts.set(instanceId, { ...store.definitions.get(definitionKey), inputHash });
  }
  return ({ instanceId, name, inputHash }) => {
    const start = starts.get(instanceId);
    if (start === undefined) throw new Error('An instance that is there cannot be read.');
    const isSame =
      start.kind === 'orchestration' && start.name === name && start.inputHash === inputHash;
    return isSame ? { kind: 'exists' } : { kind: 'conflict', name: start.name };
  };
}

function wantedOf({ name, version, firstTurn }: NewInstance) {
  return firstTurn === undefined
    ? [{ kind: 'orchestration' as const, name, version }]
    : wantedDefinitions(name, firstTurn);
}

function definitionKeyOf({ name, version, firstTurn }: NewInstance, keyOf: DefinitionKeys): number {
  return keyOf('orchestration', name, firstTurn === undefined ? version : firstTurn.version);
}

function misplacedTurn({ instanceId, firstTurn }: NewInstance): ProviderError | undefined {
  if (firstTurn === undefined || firstTurn.firstEventId === 1) return undefined;
  return new ProviderError({
    operation: 'createInstances',
    message: `createInstances: the first turn of ${JSON.stringify(instanceId)} begins with event ${firstTurn.firstEventId}. Begin with event 1.`,
    retryable: false,
  });
}

function newRow(
  { instanceId, incarnation }: NewInstance,
  instanceKey: number,
  definitionKey: number,
): InstanceRow {
  return {
    instanceKey,
    instanceId,
    incarnation,
    definitionKey,
    status: 'pending',
    executionId: 1,
    historyLength: 0,
    lastTurn: null,
    hasChildren: false,
    bufferedEvents: 0,
    parentInstanceId: null,
    parentExecutionId: null,
    parentOperation: null,
    cancelReason: null,
    closingReason: null,
    isTask: false,
    hasKey: false,
  };
}

/** Enqueues messages to instances that are there and not over. */
export async function enqueue(
  store: Store,
  scope: Scope,
  entries: readonly NewMessage[],
): Promise<readonly EnqueueResult[]> {
  const batch = store.newBatch(scope);
  const { instances, changes } = batch;
  const ids = [...new Set(entries.map(({ instanceId }) => instanceId))];
  await scope.begin(instances.lock({ ids }));
  const pending = await countPending(store, batch, entries);
  const results = entries.map(({ instanceId, message, maxPending }): EnqueueResult => {
    const receiver = instances.find(instanceId);
    if (receiver === undefined) return 'missing';
    if (isOver(receiver)) return 'over';
    const key = `${receiver.instanceKey} ${message.kind}`;
    const count = pending.get(key) ?? 0;
    if (maxPending !== undefined && count >= maxPending) return 'full';
    pending.set(key, count + 1);
    changes.send(scope, receiver, message);
    return 'enqueued';
  });
  await changes.write(scope, store);
  return results;
}

/** How many messages of a kind wait for an instance, or are with its code, where that is limited. */
async function countPending(
  store: Store,
  { scope, instances }: Batch,
  entries: readonly NewMessage[],
): Promise<Map<string, number>> {
  const wanted = new Map<string, { instanceKey: number; kind: string; most: number }>();
  const pending = new Map<string, number>();
  for (const { instanceId, message, maxPending } of entries) {
    const receiver = instances.find(instanceId);
    if (maxPending === undefined || receiver === undefined) continue;
    const { kind } = message;
    const key = `${receiver.instanceKey} ${kind}`;
    const most = Math.max(maxPending, wanted.get(key)?.most ?? 0);
    wanted.set(key, { instanceKey: receiver.instanceKey, kind, most });
    pending.set(key, kind === 'eventRaised' ? receiver.bufferedEvents : 0);
  }
  for (const { instanceKey, kind, count } of await store.messages.countOfKind(scope.tx, [
    ...wanted.values(),
  ])) {
    const key = `${instanceKey} ${kind}`;
    pending.set(key, (pending.get(key) ?? 0) + count);
  }
  return pending;
}
