import { ProviderError } from '../../../model/failures/errors.ts';
import type {
  CreateResult,
  EnqueueResult,
  InstanceConditions,
  InstanceStore,
  NewInstance,
  NewMessage,
} from '../../contract/instances.ts';
import type { ClaimedAtInsert } from '../../contract/turn.ts';
import type { WorkerList } from '../../contract/workers.ts';
import { isVisited, oneInstance, type AuditedStep } from '../../rules/audit-sums.ts';
import { existingStart } from '../../rules/starts.ts';
import type { Batch } from '../batches/batch.ts';
import type { DefinitionKeys } from '../tables/definitions.ts';
import {
  isOver,
  newInstanceRow,
  type InstanceRow,
  type PendingRow,
  type StartRow,
} from '../tables/instance-rows.ts';
import type { Scope } from '../driver/scope.ts';
import type { Store } from '../store.ts';
import { enoughTurns } from '../batches/batching.ts';
import { addressees, wantedDefinitions, type TurnCommit } from './turns.ts';

/** The PostgreSQL `InstanceStore`: creates, messages and reads instances. */
export function createInstanceStore(store: Store): InstanceStore {
  return {
    createInstances: store.batching({
      operation: 'createInstances',
      run: (scope, instances) => create(store, scope, instances),
      runSingleStatement: (instances: readonly NewInstance[]) =>
        store.singleStatementStarts.create(instances, store.nowParameter),
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

/** Creates instances with their start messages or their first turns. */
export async function create(
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
  const paused = starts.some(({ row }) => row.hasPausedDefinitions)
    ? await store.pauseRows.selectPausedNames(batch.scope.tx, 'orchestration')
    : undefined;
  for (const { instance, row } of starts) {
    const { firstTurn: turn, start } = instance;
    if (turn === undefined || paused?.has(instance.name) === true)
      batch.changes.send(batch.scope, row, start);
    else commits.push({ target: row, hasLockRow: false, turn });
  }
  if (commits.length === 0) {
    await batch.changes.write(batch.scope, store);
    return new Map();
  }
  const claimed = await store.turns.commit(batch, commits);
  return new Map(commits.map(({ target }, index) => [target.instanceKey, claimed[index] ?? []]));
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

/** Enqueues messages to instances that exist and have not ended. */
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
  const progress = await readProgress(store, scope, entries);
  const steps: AuditedStep[] = [];
  const results = entries.map(({ instanceId, message, maxPending, bulk }): EnqueueResult => {
    const receiver = instances.find(instanceId);
    if (receiver === undefined) return 'missing';
    if (bulk !== undefined) {
      if (bulk.instanceKey !== receiver.instanceKey) return 'missing';
      if (isVisited(receiver.instanceKey, progress.get(bulk.audit.auditId))) return 'repeated';
    }
    if (isOver(receiver)) return 'over';
    const key = `${receiver.instanceKey} ${message.kind}`;
    const count = pending.get(key) ?? 0;
    if (maxPending !== undefined && count >= maxPending) return 'full';
    pending.set(key, count + 1);
    changes.send(scope, receiver, message);
    if (bulk !== undefined) {
      const { audit: entry, instanceKey } = bulk;
      steps.push({ entry, counts: oneInstance, progressKey: instanceKey });
      progress.set(entry.auditId, instanceKey);
    }
    return 'enqueued';
  });
  await changes.write(scope, store);
  await store.audit.record(scope.tx, steps, scope.now);
  return results;
}

/**
 * Reads how far bulk operations came. The receivers are locked already, so that of two concurrent transactions for the
 * same instances the second one reads the progress of the first.
 */
async function readProgress(
  { audit }: Store,
  { tx }: Scope,
  entries: readonly NewMessage[],
): Promise<Map<string, number>> {
  const auditIds = new Set(entries.flatMap(({ bulk }) => bulk?.audit.auditId ?? []));
  return new Map(auditIds.size === 0 ? [] : await audit.progressOf(tx, [...auditIds]));
}

/** Counts pending messages by instance and kind, for messages with `maxPending`. Includes buffered events. */
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
