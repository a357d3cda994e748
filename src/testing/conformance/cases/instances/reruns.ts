import assert from 'node:assert/strict';
import type { AuditEntry } from '../../../../providers/contract/management.ts';
import type {
  ForkResult,
  InstanceFork,
  InstanceRetry,
  RerunSource,
  RerunStart,
  RetryResult,
} from '../../../../providers/contract/reruns.ts';
import { randomToken } from '../../../../model/values/random-id.ts';
import type { Capability } from '../../conformance-case.ts';
import { forceDelete } from '../../deletion-helpers.ts';
import { only } from '../../expectations.ts';
import {
  child,
  event,
  newInstance,
  newTurn,
  raised,
  startMessage,
  workItem,
} from '../../sample-data.ts';
import { labels, type StoreUnderTest } from '../../store-under-test.ts';
import { createTask, failure, newTask } from '../../task-helpers.ts';

const audit: AuditEntry = { auditId: 'audited', action: 'retry', actor: 'ada', filter: '{}' };

/** Begins an instance with three events and an activity, and fails it with a fourth event. */
async function failed(store: StoreUnderTest, instanceId = 'a'): Promise<RerunSource> {
  const events = [event('one'), event('two'), event('three')];
  await store.begin(instanceId, { events, workItems: [workItem(1)], customStatus: '"busy"' });
  await store.raise(instanceId, 'go');
  await store.commit(await store.claimOne(), {
    firstEventId: 4,
    events: [event('end')],
    outcome: { status: 'failed', failure },
  });
  return sourceOf(store, instanceId, 4);
}

async function sourceOf(
  store: StoreUnderTest,
  instanceId: string,
  historyLength: number,
): Promise<RerunSource> {
  const { incarnation, executionId } = await store.record(instanceId);
  return { instanceId, incarnation, executionId, historyLength };
}

async function currentSource(store: StoreUnderTest, instanceId: string): Promise<RerunSource> {
  const executions = await store.provider.listExecutions({ instanceId, after: 0, limit: 10 });
  return sourceOf(store, instanceId, executions.at(-1)?.historyLength ?? 0);
}

/** A start that keeps two events, with an activity, a timer and a child. */
function keeping(store: StoreUnderTest): RerunStart {
  return {
    kept: { first: event('first'), length: 2 },
    messages: [raised('again')],
    turn: newTurn({
      firstEventId: 3,
      workItems: [workItem(7)],
      timers: [{ operation: 8, fireAt: store.clock.now() + 100 }],
      children: [child('kid', 9)],
      bufferedEvents: 0,
      customStatus: '"kept"',
    }),
  };
}

async function retry(
  { provider }: StoreUnderTest,
  source: RerunSource,
  parts: Partial<InstanceRetry> = {},
): Promise<RetryResult> {
  const start = { messages: [startMessage()] };
  return only(await provider.retryInstances([{ source, version: '1', start, ...parts }]), 'result');
}

async function fork(
  store: StoreUnderTest,
  source: RerunSource,
  parts: Partial<InstanceFork> = {},
): Promise<ForkResult> {
  const { provider } = store;
  const wanted: InstanceFork = {
    source,
    instanceId: 'fork',
    incarnation: randomToken(),
    name: 'sample',
    version: '1',
    inputHash: 'hash',
    forkedFrom: '{"from":2}',
    start: keeping(store),
    ...parts,
  };
  return only(await provider.forkInstances([wanted]), 'result');
}

const retried = { kind: 'retried', executionId: 2 };

export const reruns: Capability = {
  title: 'retries and forks',
  cases: [
    {
      id: 'retry-run/keeps-the-ended-execution',
      title: 'a retry keeps the ended execution with its status, failure and events',
      async run(store) {
        const source = await failed(store);
        const [before] = await store.executions('a');
        const history = await store.history('a', 1);
        assert.deepEqual(await retry(store, source, { start: keeping(store) }), retried);
        const [ended, current] = await store.executions('a');
        assert.deepEqual(ended, { ...before, failure });
        assert.equal(current?.status, 'running');
        assert.deepEqual(await store.history('a', 1), history);
      },
    },
    {
      id: 'retry-run/keeps-the-tags',
      title: 'a retry keeps the tags of the row and merges those of its turn',
      async run(store) {
        const events = [event('one'), event('two'), event('three')];
        await store.begin('a', { events, tags: { tenant: 'acme', stage: 'late' } });
        await store.raise('a', 'go');
        await store.commit(await store.claimOne(), {
          firstEventId: 4,
          events: [event('end')],
          outcome: { status: 'failed', failure },
        });
        const { turn, ...start } = keeping(store);
        const tagged = newTurn({ ...turn, tags: { stage: null, part: 'kept' } });
        const source = await sourceOf(store, 'a', 4);
        assert.deepEqual(
          await retry(store, source, { start: { ...start, turn: tagged } }),
          retried,
        );
        assert.deepEqual((await store.record('a')).tags, { part: 'kept', tenant: 'acme' });
        const idsOf = async (tags: Readonly<Record<string, string>>) =>
          (await store.provider.listInstances({ filter: { tags }, limit: 10 })).instances.map(
            ({ instanceId }) => instanceId,
          );
        assert.deepEqual(await idsOf({ tenant: 'acme', part: 'kept' }), ['a']);
        assert.deepEqual(await idsOf({ stage: 'late' }), []);
      },
    },
    {
      id: 'retry-run/makes-the-instance-live',
      title: 'a retried instance has no end, failure, cancel or output and takes messages',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        await store.terminate('a');
        const { historyLength } = only(await store.executions('a'), 'execution');
        const source = await sourceOf(store, 'a', historyLength);
        assert.deepEqual(await retry(store, source), retried);
        const { status, executionId, endedAt, failure, cancel, terminated } =
          await store.record('a');
        assert.deepEqual(
          { status, executionId, endedAt, failure, cancel, terminated },
          {
            status: 'running',
            executionId: 2,
            endedAt: null,
            failure: null,
            cancel: null,
            terminated: null,
          },
        );
        const item = await store.claimOne();
        assert.deepEqual(labels(item), ['start']);
        assert.equal(item.executionId, 2);
        await store.commit(item, {
          events: [event('new')],
          outcome: { status: 'completed', payload: '1' },
        });
        assert.equal((await store.record('a')).status, 'completed');
      },
    },
    {
      id: 'retry-run/copies-the-kept-events',
      title: 'a retry copies the kept events, with the given first one, and no more',
      async run(store) {
        const source = await failed(store);
        await retry(store, source, { start: keeping(store) });
        assert.deepEqual(await store.historyLabels('a', 2), ['first', 'two']);
        const { customStatus } = await store.record('a');
        assert.equal(customStatus, '"kept"');
        const item = await store.claimOne({ max: 1 });
        assert.equal(item.historyLength, 2);
      },
    },
    {
      id: 'retry-run/schedules-what-is-open',
      title: 'a retry queues its messages, work, timers and children once',
      async run(store) {
        const source = await failed(store);
        await retry(store, source, { start: keeping(store) });
        const work = await store.claimWork();
        assert.deepEqual(
          work.map(({ executionId, operation }) => [executionId, operation]),
          [[2, 7]],
        );
        const claimed = await store.claim();
        const byId = new Map(claimed.map((item) => [item.instanceId, labels(item)]));
        assert.deepEqual([byId.get('a'), byId.get('kid')], [['again'], ['start']]);
        const item = claimed.find(({ instanceId }) => instanceId === 'a');
        assert.ok(item !== undefined);
        await store.commit(item, { firstEventId: 3, events: [event('more')] });
        await store.clock.advance(100);
        assert.deepEqual(labels(await store.claimOne()), ['timerFired 8']);
      },
    },
    {
      id: 'retry-run/rejects-what-cannot-be-retried',
      title: 'a completed, live, unknown or child instance is not retried',
      async run(store) {
        await store.begin('live');
        await store.begin('parent', { children: [child('kid', 1)] });
        await store.commit(await store.claimOne(), {
          events: [event('one')],
          outcome: { status: 'failed', failure },
        });
        await store.begin('done', { outcome: { status: 'completed', payload: '1' } });
        const kid = await sourceOf(store, 'kid', 1);
        const live = await sourceOf(store, 'live', 0);
        const done = await sourceOf(store, 'done', 0);
        const other = { ...done, incarnation: 'other' };
        await store.expectNoChange(async () => {
          assert.equal((await retry(store, kid)).kind, 'child');
          assert.deepEqual(await retry(store, live), { kind: 'status', status: 'running' });
          assert.deepEqual(await retry(store, done), { kind: 'status', status: 'completed' });
          assert.equal((await retry(store, other)).kind, 'missing');
        });
      },
    },
    {
      id: 'retry-run/rejects-another-execution',
      title: 'a retry of an execution that is not the current one changes nothing',
      async run(store) {
        const source = await failed(store);
        await store.expectNoChange(async () => {
          const shorter = { ...source, historyLength: 3 };
          assert.equal((await retry(store, shorter)).kind, 'changed');
          assert.equal((await retry(store, { ...source, executionId: 2 })).kind, 'changed');
        });
      },
    },
    {
      id: 'retry-run/one-of-many-wins',
      title: 'one of several concurrent retries starts an execution',
      async run(store) {
        const source = await failed(store);
        const results = await Promise.all([1, 2, 3].map(() => retry(store, source)));
        assert.equal(results.filter(({ kind }) => kind === 'retried').length, 1);
        assert.equal((await store.executions('a')).length, 2);
      },
    },
    {
      id: 'retry-run/a-late-outcome-is-dropped',
      title: 'an outcome of the ended execution does not reach the retried instance',
      async run(store) {
        await store.begin('a', { events: [event('one')], workItems: [workItem(1)] });
        const item = await store.claimWorkOne();
        await store.terminate('a');
        const source = await sourceOf(store, 'a', 2);
        const start = { kept: { first: event('first'), length: 1 }, messages: [] };
        const turn = newTurn({ firstEventId: 2, workItems: [workItem(1)] });
        assert.deepEqual(await retry(store, source, { start: { ...start, turn } }), retried);
        await store.ackWork(item.lockToken, { kind: 'completed', payload: '"late"' });
        assert.deepEqual((await store.claim()).flatMap(labels), []);
        const again = await store.claimWorkOne();
        assert.equal(again.executionId, 2);
        await store.ackWork(again.lockToken, { kind: 'completed', payload: '"new"' });
        assert.deepEqual(labels(await store.claimOne()), ['activityCompleted 1']);
      },
    },
    {
      id: 'retry-run/runs-a-task-again',
      title: 'a retried task run has no failures, no expiry, and holds its dedupe key',
      async run(store) {
        await createTask(store, 't', { dedupeKey: 'key', expiresInMs: 60_000 });
        await store.ackWork((await store.claimWorkOne()).lockToken, { kind: 'failed', failure });
        const source = await sourceOf(store, 't', 0);
        const { provider } = store;
        const [result] = await provider.retryInstances([
          { source, version: null, taskInput: '"other"' },
        ]);
        assert.deepEqual(result, retried);
        const { status, task } = await store.record('t');
        assert.deepEqual(
          [status, task?.failures, task?.expiresAt, task?.input],
          ['pending', 0, null, '"other"'],
        );
        const second = await createTask(store, 'u', { dedupeKey: 'key' });
        assert.deepEqual(second, { kind: 'active', instanceId: 't' });
        const item = await store.claimWorkOne();
        assert.deepEqual([item.payload, item.failures], ['"other"', 0]);
        await store.ackWork(item.lockToken, { kind: 'completed', payload: '1' });
        assert.equal((await store.record('t')).status, 'completed');
      },
    },
    {
      id: 'retry-run/a-taken-key-rejects',
      title: 'a task run whose dedupe key another run holds, or whose handler runs, is not retried',
      async run(store) {
        await createTask(store, 't', { dedupeKey: 'key' });
        const item = await store.claimWorkOne();
        await store.terminate('t');
        const source = await sourceOf(store, 't', 0);
        await store.expectNoChange(async () => {
          assert.equal((await retry(store, source)).kind, 'busy');
        });
        await store.ackWork(item.lockToken, { kind: 'canceled', leaked: false });
        await store.provider.createTasks([newTask('u', { dedupeKey: 'key' })]);
        await store.expectNoChange(async () => {
          assert.deepEqual(await retry(store, source), { kind: 'keyTaken', instanceId: 'u' });
        });
      },
    },
    {
      id: 'retry-run/takes-its-key-again',
      title: 'a retried instance holds its dedupe key; it is not retried while a live one holds it',
      async run(store) {
        const start = (id: string) =>
          store.provider.createInstances([newInstance(id, { dedupeKey: 'key' })]);
        await start('a');
        await store.terminate('a');
        await start('b');
        const source = await currentSource(store, 'a');
        await store.expectNoChange(async () => {
          assert.deepEqual(await retry(store, source, { audit }), {
            kind: 'keyTaken',
            instanceId: 'b',
          });
        });
        assert.deepEqual(await store.provider.listAudit({ limit: 10 }), []);
        await store.terminate('b');
        assert.deepEqual(await retry(store, source), retried);
        const [third] = await start('c');
        assert.deepEqual(third, { kind: 'active', instanceId: 'a' });
      },
    },
    {
      id: 'retry-run/is-audited',
      title: 'a retry records its audit entry, and a rejected one does not',
      async run(store) {
        const source = await failed(store);
        await retry(store, source, { audit });
        await retry(store, source, { audit: { ...audit, auditId: 'rejected' } });
        const records = await store.provider.listAudit({ limit: 10 });
        assert.deepEqual(
          records.map(({ auditId, action, actor }) => ({ auditId, action, actor })),
          [{ auditId: 'audited', action: 'retry', actor: 'ada' }],
        );
      },
    },
    {
      id: 'retry-run/a-bulk-operation-retries-once',
      title: 'a bulk operation retries each instance once, even if it has failed again',
      async run(store) {
        const older = await failed(store, 'older');
        const source = await failed(store);
        const bulkKey = (await store.record('a')).instanceKey;
        const entry = { ...audit, action: 'retryBulk' } as const;
        const bulk = { audit: entry, bulkKey };
        assert.deepEqual(await retry(store, source, bulk), { kind: 'retried', executionId: 2 });
        assert.deepEqual(await retry(store, source, bulk), { kind: 'repeated' });
        await store.terminate('a');
        const again = await currentSource(store, 'a');
        assert.deepEqual(await retry(store, again, bulk), { kind: 'repeated' });
        const next = { audit: entry, bulkKey: (await store.record('older')).instanceKey };
        assert.deepEqual(await retry(store, older, next), { kind: 'retried', executionId: 2 });
        const [record, ...others] = await store.provider.listAudit({ limit: 10 });
        assert.deepEqual([record?.action, record?.instances, others], ['retryBulk', 2, []]);
        assert.deepEqual(await retry(store, again), { kind: 'retried', executionId: 3 });
      },
    },
    {
      id: 'retry-run/of-a-paused-instance-is-not-paused',
      title: 'the retry of an instance that was paused when it was terminated is claimable',
      async run(store) {
        await store.begin('a', { events: [event('one')], workItems: [workItem(1)] });
        await createTask(store, 't');
        const pause = { reason: null, actor: null, tree: false };
        await store.provider.pauseInstances([
          { instanceId: 'a', ...pause },
          { instanceId: 't', ...pause },
        ]);
        await store.terminate('a');
        await store.terminate('t');
        await retry(store, await currentSource(store, 'a'));
        const source = await sourceOf(store, 't', 0);
        await store.provider.retryInstances([{ source, version: null }]);
        assert.equal((await store.record('a')).paused, null);
        assert.equal((await store.record('t')).paused, null);
        assert.equal((await store.claimOne()).instanceId, 'a');
        assert.equal((await store.claimWorkOne()).instanceId, 't');
      },
    },
    {
      id: 'fork/copies-the-kept-events',
      title: 'a fork has the kept events and its origin, and no more',
      async run(store) {
        const source = await failed(store);
        assert.deepEqual(await fork(store, source), { kind: 'forked' });
        assert.deepEqual(await store.historyLabels('fork'), ['first', 'two']);
        const { status, executionId, forkedFrom } = await store.record('fork');
        assert.deepEqual(
          { status, executionId, forkedFrom },
          { status: 'running', executionId: 1, forkedFrom: '{"from":2}' },
        );
      },
    },
    {
      id: 'fork/leaves-its-original-unchanged',
      title: 'a fork of a live instance changes nothing of it',
      async run(store) {
        const events = [event('one'), event('two'), event('three')];
        await store.begin('a', { events, workItems: [workItem(1)] });
        const before = await store.snapshotOf(await store.record('a'));
        assert.equal((await fork(store, await sourceOf(store, 'a', 2))).kind, 'forked');
        assert.deepEqual(await store.snapshotOf(await store.record('a')), before);
        const work = await store.claimWork();
        assert.deepEqual(work.map(({ instanceId }) => instanceId).toSorted(), ['a', 'fork']);
      },
    },
    {
      id: 'fork/schedules-what-is-open',
      title: 'a fork queues its messages, work, timers and children',
      async run(store) {
        const source = await failed(store);
        await fork(store, source);
        const item = await store.claimWorkOne();
        assert.deepEqual([item.instanceId, item.operation], ['fork', 7]);
        const claimed = await store.claim();
        const byId = new Map(claimed.map((one) => [one.instanceId, labels(one)]));
        assert.deepEqual([byId.get('fork'), byId.get('kid')], [['again'], ['start']]);
        await store.ackWork(item.lockToken, { kind: 'completed', payload: '1' });
        assert.equal((await store.record('fork')).status, 'running');
      },
    },
    {
      id: 'fork/stores-its-tags',
      title: 'a fork has its tags and is listed by them',
      async run(store) {
        const source = await failed(store);
        await fork(store, source, { tags: { tenant: 'acme' } });
        assert.deepEqual((await store.record('fork')).tags, { tenant: 'acme' });
        const filter = { tags: { tenant: 'acme' } };
        const { instances } = await store.provider.listInstances({ filter, limit: 10 });
        assert.deepEqual(
          instances.map(({ instanceId }) => instanceId),
          ['fork'],
        );
      },
    },
    {
      id: 'fork/a-repeat-exists',
      title: 'a repeated fork returns that it exists and changes nothing',
      async run(store) {
        const source = await failed(store);
        await fork(store, source);
        await store.expectNoChange(async () => {
          assert.deepEqual(await fork(store, source), { kind: 'exists' });
        });
      },
    },
    {
      id: 'repeat/of-a-deleted-fork',
      title: 'a repeated fork creates nothing after its instance was deleted',
      async run(store) {
        const source = await failed(store);
        const first = { incarnation: 'first' };
        assert.deepEqual(await fork(store, source, first), { kind: 'forked' });
        const [children = []] = await store.provider.listChildren(['fork']);
        await forceDelete(store, ...children, 'fork');
        await store.expectNoChange(async () => {
          const repeat = await fork(store, source, { ...first, isRepeat: true });
          assert.deepEqual(repeat, { kind: 'exists' });
        });
        const other = { incarnation: 'second', isRepeat: true };
        assert.deepEqual(await fork(store, source, other), { kind: 'forked' });
      },
    },
    {
      id: 'fork/a-taken-id-conflicts',
      title: 'a fork whose id belongs to another instance changes nothing',
      async run(store) {
        const source = await failed(store);
        await store.begin('taken');
        await fork(store, source);
        await store.expectNoChange(async () => {
          const taken = await fork(store, source, { instanceId: 'taken' });
          const elsewhere = await fork(store, source, { forkedFrom: '{"from":3}' });
          assert.deepEqual([taken.kind, elsewhere.kind], ['conflict', 'conflict']);
        });
      },
    },
    {
      id: 'fork/rejects-a-missing-source',
      title: 'a fork of an unknown, replaced, shorter or child source changes nothing',
      async run(store) {
        const source = await failed(store);
        await store.begin('parent', { children: [child('kid', 1)] });
        const kid = await sourceOf(store, 'kid', 0);
        await store.expectNoChange(async () => {
          assert.equal((await fork(store, { ...source, instanceId: 'none' })).kind, 'missing');
          assert.equal((await fork(store, { ...source, incarnation: 'x' })).kind, 'missing');
          assert.equal((await fork(store, { ...source, historyLength: 9 })).kind, 'changed');
          assert.equal((await fork(store, { ...source, executionId: 2 })).kind, 'changed');
          assert.equal((await fork(store, kid)).kind, 'child');
        });
      },
    },
    {
      id: 'fork/is-audited',
      title: 'a fork records its audit entry',
      async run(store) {
        const source = await failed(store);
        await fork(store, source, { audit: { ...audit, action: 'fork' } });
        const records = await store.provider.listAudit({ limit: 10 });
        assert.deepEqual(
          records.map(({ action, actor }) => [action, actor]),
          [['fork', 'ada']],
        );
      },
    },
  ],
};
