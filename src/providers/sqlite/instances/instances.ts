import type {
  CreateResult,
  InstanceStore,
  NewInstance,
  InstanceRecord,
  ExecutionRecord,
  ListInstancesParams,
  ListInstancesResult,
  CountInstancesParams,
  DefinitionRecord,
  InstanceConditions,
  InstanceCount,
  ListExecutionsParams,
} from '../../contract/instances.ts';
import { ProviderError } from '../../../model/failures/errors.ts';
import type { Turn } from '../../contract/turn.ts';
import { maxExamined } from '../../rules/listing.ts';
import type { Scope, StoreAccess } from '../batches/group-commit.ts';
import type { Audit } from '../tables/audit.ts';
import type { TurnTarget, InstanceRows } from '../tables/instance-rows.ts';
import type { Definitions } from '../tables/definitions.ts';
import type { History } from '../tables/history.ts';
import type { InstanceLocks } from '../tables/instance-locks.ts';
import type { InstanceDeadlines } from '../tables/instance-deadlines.ts';
import type { InstanceHeaders } from '../tables/instance-headers.ts';
import type { InstanceTags } from '../tables/instance-tags.ts';
import type { Messages } from '../tables/messages.ts';
import type { PausedDefinitions } from '../tables/pause-rows.ts';
import {
  createPending,
  findActive,
  useExistingStart,
  type ExistingStartParts,
} from './existing-starts.ts';
import { enqueue, type EnqueueParts } from './enqueue.ts';
import type { BeginLimits } from '../limits/begin-limits.ts';
import type { Turns } from './turns.ts';
import { nextIteration } from '../../../model/platform.ts';

/** The parts of the store that create and read instances. */
export interface InstanceParts extends StoreAccess, EnqueueParts, ExistingStartParts {
  readonly audit: Audit;
  readonly definitions: Definitions;
  readonly history: History;
  readonly instances: InstanceRows;
  readonly locks: InstanceLocks;
  readonly messages: Messages;
  readonly beginLimits: BeginLimits;
  readonly pausedDefinitions: PausedDefinitions;
  readonly turns: Turns;
  readonly instanceTags: InstanceTags;
  readonly instanceHeaders: InstanceHeaders;
  readonly deadlines: InstanceDeadlines;
  readonly instanceList: {
    countSlice(
      filter: InstanceConditions,
      slice: {
        readonly cap: number;
        readonly maxRows: number;
        readonly beforeKey?: number | undefined;
      },
    ): { readonly count: number; readonly examined: number; readonly nextKey: number | null };
    definitions(
      params: Parameters<InstanceStore['listDefinitions']>[0],
    ): readonly DefinitionRecord[];
  };
  readonly instanceRecords: {
    get(ids: readonly string[], maxBytes?: number): readonly (InstanceRecord | undefined)[];
    list(params: ListInstancesParams): ListInstancesResult;
    listExecutions(params: ListExecutionsParams): readonly ExecutionRecord[];
  };
}

/** Creates and reads instances, and enqueues messages to them. */
export function createInstanceStore(store: InstanceParts): InstanceStore {
  return {
    createInstances: (instances) =>
      store.write('createInstances', instances, (scope, one) => createInstance(store, scope, one)),

    enqueueMessages: (messages) =>
      store.write('enqueueMessages', messages, (scope, one) => enqueue(store, scope, one)),

    getInstances: (instanceIds, maxBytes) =>
      store.read('getInstances', () => store.instanceRecords.get(instanceIds, maxBytes)),

    listInstances: (params) =>
      store.read('listInstances', () => store.instanceRecords.list(params)),

    countInstances: (params) => countInstances(store, params),

    listDefinitions: (params) =>
      store.read('listDefinitions', () => store.instanceList.definitions(params)),

    listExecutions: (params) =>
      store.read('listExecutions', () => store.instanceRecords.listExecutions(params)),

    readHeaders: (instanceKeys) =>
      store.read('readHeaders', () => store.instanceHeaders.read(instanceKeys)),

    readInstanceHistory: ({ instanceId, ...range }) =>
      store.read('readInstanceHistory', () => {
        const instance = store.instances.findReceiver(instanceId);
        if (instance === undefined) return [];
        return store.history.read({ ...range, instanceKey: instance.instanceKey });
      }),
  };
}

/** Counts in slices, and lets the event loop run between two of them. */
async function countInstances(
  store: InstanceParts,
  { filter, cap }: CountInstancesParams,
): Promise<InstanceCount> {
  let count = 0;
  let left = cap + maxExamined;
  for (let beforeKey: number | undefined; ;) {
    const slice = await store.read('countInstances', () =>
      store.instanceList.countSlice(filter, { cap: cap - count, maxRows: left, beforeKey }),
    );
    count += slice.count;
    left -= slice.examined;
    const isOver = slice.nextKey === null || count >= cap || left <= 0;
    if (isOver) return { count, capped: slice.nextKey !== null };
    beforeKey = slice.nextKey;
    await nextIteration();
  }
}

/** Creates one instance. An error rolls back only this one. */
export function createInstance(
  store: InstanceParts,
  scope: Scope,
  instance: NewInstance,
): CreateResult {
  if (store.deletedStarts.has(instance)) return { kind: 'exists' };
  const result = scope.isolate(
    'createInstances',
    () =>
      findActive(store, scope, instance) ??
      (instance.firstTurn === undefined
        ? createPending(store, scope, instance)
        : createStarted(store, scope, { instance, turn: instance.firstTurn })) ??
      useExistingStart(store, scope, instance),
  );
  return result.ok ? result.value : { kind: 'refused', error: result.error };
}

function createStarted(
  store: InstanceParts,
  scope: Scope,
  { instance, turn }: { readonly instance: NewInstance; readonly turn: Turn },
): CreateResult | undefined {
  if (turn.firstEventId !== 1) {
    const message = `createInstances: the first turn of ${JSON.stringify(instance.instanceId)} starts with event ${turn.firstEventId}. It must start with event 1.`;
    const error = new ProviderError({ operation: 'createInstances', message, retryable: false });
    return { kind: 'refused', error };
  }
  const isHeldBack =
    store.pausedDefinitions.has(scope, 'orchestration', instance.name) ||
    store.beginLimits.isLimited(scope, instance.name);
  if (isHeldBack) {
    const created = createPending(store, scope, instance);
    return created?.kind === 'created' ? { ...created, withoutTurn: true } : created;
  }
  const definitionKey = store.definitions.intern('orchestration', instance.name, turn.version);
  const { now } = scope;
  const instanceKey = store.instances.insertStarted({ instance, definitionKey, turn, now });
  if (instanceKey === undefined) return undefined;
  store.instanceTags.add(instanceKey, instance.tags);
  if (turn.outcome.status === 'running' || turn.outcome.status === 'continuedAsNew')
    store.deadlines.add(instanceKey, instance, now);
  const { instanceId, incarnation } = instance;
  const target: TurnTarget = {
    instanceKey,
    instanceId,
    incarnation,
    executionId: 1,
    definitionKey,
    status: 'running',
    historyLength: 0,
    hasChildren: 0,
    isPaused: 0,
    hasLockRow: false,
  };
  const claimed = store.turns.commitFirst(scope, target, turn);
  return { kind: 'created', instanceKey, claimed };
}
