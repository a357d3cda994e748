import assert from 'node:assert/strict';
import { randomToken } from '../../model/values/random-id.ts';
import type { InstanceStatus } from '../../model/status.ts';
import type { ScheduleRecord, ScheduleTick } from '../../providers/contract/schedules.ts';
import type { CreateTaskResult, NewTask } from '../../providers/contract/tasks.ts';
import type {
  FetchWorkItemsParams,
  WorkItem,
  WorkOutcome,
} from '../../providers/contract/work-queue.ts';
import { collectHints } from './collect-hints.ts';
import { expectCommitted, only } from './expectations.ts';
import type { StoreUnderTest } from './store-under-test.ts';

/** The JSON text of a failure. */
export const failure = '{"name":"Error","message":"no"}';

/** All outcomes of a task run. */
export const outcomes: readonly WorkOutcome[] = [
  { kind: 'completed', payload: '"done"' },
  { kind: 'failed', failure },
  { kind: 'skipped' },
  { kind: 'canceled', leaked: false },
];

export function newTask(instanceId: string, parts: Partial<NewTask> = {}): NewTask {
  return {
    instanceId,
    incarnation: randomToken(),
    name: 'task',
    inputHash: 'hash',
    payload: '"input"',
    options: null,
    priority: 0,
    ...parts,
  };
}

/** Creates one task run and returns the result. */
export async function createTask(
  { provider }: StoreUnderTest,
  instanceId: string,
  parts: Partial<NewTask> = {},
): Promise<CreateTaskResult> {
  return only(await provider.createTasks([newTask(instanceId, parts)]), 'result');
}

/** Creates task runs, and expects that they are new. */
export async function createTasks(
  { provider }: StoreUnderTest,
  tasks: readonly NewTask[],
): Promise<void> {
  const results = await provider.createTasks(tasks);
  assert.deepEqual(
    results.map(({ kind }) => kind),
    tasks.map(() => 'created'),
  );
}

/** Creates a task run and claims it. No other work item may be claimable. */
export async function startTask(
  store: StoreUnderTest,
  instanceId: string,
  parts: Partial<NewTask> = {},
  claim: Partial<FetchWorkItemsParams> = {},
): Promise<WorkItem> {
  await createTasks(store, [newTask(instanceId, parts)]);
  const item = await store.claimWorkOne(claim);
  assert.equal(item.instanceId, instanceId);
  return item;
}

/** Creates a task run with an on-fail handler, fails it, and claims the handler's work item. */
export async function failTask(
  store: StoreUnderTest,
  instanceId: string,
  parts: Partial<NewTask> = {},
): Promise<WorkItem> {
  const onFail = { options: '"handler"' };
  const { lockToken } = await startTask(store, instanceId, { onFail, ...parts });
  expectCommitted(await store.ackWork(lockToken, { kind: 'failed', failure }));
  const item = await store.claimWorkOne();
  assert.equal(item.kind, 'onFail');
  return item;
}

/** Expects that every call with this lock token has no effect. */
export async function expectTokenRejected(store: StoreUnderTest, lockToken: string): Promise<void> {
  const { provider } = store;
  const results = await store.expectNoChange(async () => ({
    // A separate call, because a store may have a fast path for a single completed run.
    alone: await store.ackWork(lockToken),
    acks: await Promise.all(outcomes.map((outcome) => store.ackWork(lockToken, outcome))),
    renewed: await store.renewWork(lockToken),
    retried: await provider.retryWorkItems([{ lockToken, delayMs: 0, failure }]),
    abandoned: await provider.abandonWorkItems([{ lockToken, delayMs: 0, giveBackClaim: true }]),
    passed: await provider.markPointOfNoReturn(lockToken),
  }));
  assert.deepEqual(
    results.acks.map(({ ok }) => ok),
    outcomes.map(() => false),
  );
  assert.equal(results.alone.ok, false);
  assert.equal(results.renewed.held, false);
  assert.deepEqual([results.retried, results.abandoned], [[false], [false]]);
  assert.deepEqual(results.passed, { kind: 'lost' });
}

export async function expectStatus(
  store: StoreUnderTest,
  instanceId: string,
  status: InstanceStatus,
): Promise<void> {
  assert.equal((await store.record(instanceId)).status, status);
}

/** Returns the ids of all `finished` hints, in order, with duplicates. */
export function collectFinished({ provider }: StoreUnderTest): () => readonly string[] {
  const { hints } = collectHints(provider);
  return () => hints.flatMap((hint) => (hint.kind === 'finished' ? hint.instanceIds : []));
}

/** Returns the instance ids of claimed items, in claim order. */
export function idsOf(items: readonly WorkItem[]): readonly string[] {
  return items.map(({ instanceId }) => instanceId);
}

/** Writes a schedule, and expects success. */
export async function putSchedule(
  { provider }: StoreUnderTest,
  name: string,
  nextAt: number | null = 1_000,
): Promise<ScheduleRecord> {
  const record = await provider.putSchedule({ name, definition: `{"of":"${name}"}`, nextAt });
  assert.ok(record, `${name} should be written`);
  return record;
}

/** Returns the due tick of a schedule. */
export function tickOf(record: ScheduleRecord, parts: Partial<ScheduleTick> = {}): ScheduleTick {
  return {
    name: record.name,
    revision: record.revision,
    nextAt: (record.nextAt ?? 0) + 1_000,
    lastTickAt: record.nextAt ?? 0,
    instances: [],
    tasks: [],
    error: null,
    ...parts,
  };
}
