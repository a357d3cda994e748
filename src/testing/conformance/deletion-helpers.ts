import assert from 'node:assert/strict';
import { randomToken } from '../../model/values/random-id.ts';
import type {
  AuditEntry,
  DeleteInstanceResult,
  ExecutionPrune,
  ExecutionPruneResult,
  TreeDeletion,
  TreeDeletionResult,
} from '../../providers/contract/management.ts';
import type { Turn } from '../../providers/contract/turn.ts';
import { only } from './expectations.ts';
import { child, event, startMessage } from './sample-data.ts';
import type { BegunInstance, StoreUnderTest } from './store-under-test.ts';

export const completed = { status: 'completed', payload: null } as const;
export const continued = { status: 'continuedAsNew', version: '1', start: startMessage() } as const;

/** A year: by then, all timers have fired and all leases of a case have expired. */
export const yearMs = 365 * 86_400_000;

/** Returns events with the labels 1, 2, 3, … */
export function numberedEvents(count: number): Turn['events'] {
  return Array.from({ length: count }, (_, index) => event(`${index + 1}`));
}

export function auditEntry(parts: Partial<AuditEntry> = {}): AuditEntry {
  return { auditId: randomToken(), action: 'delete', actor: 'me', filter: '{}', ...parts };
}

/** Deletes one tree. Pass children before their parents. */
export async function deleteTree(
  store: StoreUnderTest,
  instanceIds: readonly string[],
  parts: Partial<TreeDeletion> = {},
): Promise<TreeDeletionResult> {
  const tree = { instanceIds, force: false, ...parts };
  return only(await store.provider.deleteInstancesAtomic([tree]), 'result');
}

/** Deletes one tree with `force`, and expects success. */
export async function forceDelete(
  store: StoreUnderTest,
  ...instanceIds: readonly string[]
): Promise<DeleteInstanceResult> {
  const result = await deleteTree(store, instanceIds, { force: true });
  if (result.kind !== 'deleted') assert.fail(`expected deleted, got ${result.kind}`);
  return result.counts;
}

export async function prune(
  store: StoreUnderTest,
  instanceId: string,
  parts: Partial<ExecutionPrune> = {},
): Promise<ExecutionPruneResult> {
  const one = { instanceId, max: 1_000, ...parts };
  return only(await store.provider.pruneExecutionsAtomic([one]), 'result');
}

/** Creates an instance that completes in its first turn, with this number of events. */
export async function createEnded(
  store: StoreUnderTest,
  instanceId: string,
  events = 1,
): Promise<BegunInstance> {
  return store.begin(instanceId, { events: numberedEvents(events), outcome: completed });
}

/** Runs an instance through `count` executions, with one event each. The last one is running. */
export async function runExecutions(
  store: StoreUnderTest,
  instanceId: string,
  { count, parts = {} }: { readonly count: number; readonly parts?: Partial<Turn> },
): Promise<void> {
  await store.create(instanceId);
  for (let execution = 1; execution < count; execution += 1) {
    const turn = { events: [event(`execution ${execution}`)], outcome: continued, ...parts };
    await store.commit(await store.claimOne(), turn);
    await store.clock.advance(1_000);
  }
  await store.commit(await store.claimOne(), { events: [event(`execution ${count}`)] });
}

/** Creates a root with children `left` and `right`, and `leaf` below `left`. Returns the ids, children first. */
export async function beginTree(
  store: StoreUnderTest,
  outcome: Turn['outcome'] = { status: 'running' },
): Promise<readonly string[]> {
  const cancellation = 'abandon' as const;
  const children = ['left', 'right'].map((id, index) => child(id, index + 1, { cancellation }));
  await store.begin('root', { children, outcome });
  for (const item of await store.claim()) {
    const below = item.instanceId === 'left' ? [child('leaf', 1, { cancellation })] : [];
    await store.commit(item, { events: [event('begun')], children: below, outcome });
  }
  await store.commit(await store.claimOne(), { events: [event('begun')], outcome });
  return ['leaf', 'left', 'right', 'root'];
}

/** Expects that no data of these instances can be read. */
export async function expectDeleted(
  store: StoreUnderTest,
  instanceIds: readonly string[],
): Promise<void> {
  const { provider } = store;
  const records = await provider.getInstances(instanceIds);
  assert.deepEqual(new Set(records), new Set([undefined]), 'some can still be read');
  const { instances: listed } = await provider.listInstances({ filter: {}, limit: 10_000 });
  const left = listed.filter(({ instanceId }) => instanceIds.includes(instanceId));
  assert.deepEqual(left, [], 'some are still listed');
  for (const instanceId of instanceIds.slice(0, 10)) {
    assert.deepEqual(await store.executions(instanceId), []);
    assert.equal((await store.history(instanceId)).length, 0);
    assert.deepEqual(await provider.listRunningItems(instanceId), []);
    assert.equal(await provider.measureInstance(instanceId), undefined);
    assert.equal(await provider.getParentId(instanceId), undefined);
  }
}
