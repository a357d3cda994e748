import assert from 'node:assert/strict';
import type { AppliedTimeouts } from '../../../../providers/contract/cancellation.ts';
import type { Capability } from '../../conformance-case.ts';
import { forceDelete } from '../../deletion-helpers.ts';
import { openSession, orchestrationJob, taskJob } from '../../job-helpers.ts';
import {
  awaitedDetached,
  child,
  cleanupMs,
  event,
  newTurn,
  startMessage,
  workItem,
} from '../../sample-data.ts';
import { contents, lockMs, type StoreUnderTest } from '../../store-under-test.ts';
import { newTask } from '../../task-helpers.ts';

const timeoutMs = 60_000;

function apply({ provider }: StoreUnderTest, limit = 100): Promise<AppliedTimeouts> {
  return provider.applyTimeouts({ limit, cleanupMs });
}

async function pass(store: StoreUnderTest, ms = timeoutMs): Promise<AppliedTimeouts> {
  await store.clock.advance(ms);
  return apply(store);
}

export const timeouts: Capability = {
  title: 'timeouts of instances',
  cases: [
    {
      id: 'timeout/cancels-when-it-has-passed',
      title: 'applyTimeouts() cancels a running instance when its timeout has passed, not before',
      async run(store) {
        await store.begin('timed', {}, { timeoutMs });
        await store.begin('untimed');
        await store.clock.advance(timeoutMs - 1);
        assert.equal((await apply(store)).canceled, 0);
        assert.equal((await store.record('timed')).status, 'running');
        assert.equal((await pass(store, 1)).canceled, 1);
        const { status, cancel } = await store.record('timed');
        assert.equal(status, 'canceling');
        assert.equal(cancel?.trigger, 'timeout');
        assert.equal(cancel.actor, null);
        assert.equal((await store.record('untimed')).status, 'running');
        const item = await store.claimOne();
        const [message] = contents(item);
        assert.equal(message?.['kind'], 'cancel');
        assert.equal(message['trigger'], 'timeout');
        assert.equal(message['reason'], cancel.reason);
      },
    },
    {
      id: 'timeout/counts-with-a-first-turn',
      title: 'a start with a first turn keeps its timeout',
      async run(store) {
        for (const id of ['first', 'second']) {
          await store.create(id, { timeoutMs, firstTurn: newTurn({ events: [event('begun')] }) });
        }
        assert.equal((await pass(store)).canceled, 2);
        assert.equal((await store.record('second')).cancel?.trigger, 'timeout');
      },
    },
    {
      id: 'timeout/ends-a-pending-instance',
      title: 'applyTimeouts() ends a pending instance as canceled, without a worker',
      async run(store) {
        await store.create('pending', { timeoutMs });
        assert.equal((await pass(store)).canceled, 1);
        const { status, cancel } = await store.record('pending');
        assert.deepEqual([status, cancel?.trigger], ['canceled', 'timeout']);
        await store.expectIdle();
      },
    },
    {
      id: 'timeout/flags-claimed-work',
      title: 'applyTimeouts() flags the claimed items of the instance with the trigger `timeout`',
      async run(store) {
        await store.begin('timed', { workItems: [workItem(1), workItem(2)] }, { timeoutMs });
        const { lockToken } = await store.claimWorkOne({ max: 1, lockMs: 10 * timeoutMs });
        await pass(store);
        const renewed = await store.renewWork(lockToken);
        assert.ok(renewed.held);
        assert.equal(renewed.cancel?.trigger, 'timeout');
        const canceled = contents(await store.claimOne()).filter(
          ({ kind }) => kind === 'activityCanceled',
        );
        assert.deepEqual(
          canceled.map(({ operation, trigger }) => [operation, trigger]),
          [[2, 'timeout']],
        );
      },
    },
    {
      id: 'timeout/of-children-and-detached-starts',
      title: 'children and detached instances have their own timeouts',
      async run(store) {
        await store.begin('parent', {
          children: [
            child('child', 1, { timeoutMs }),
            awaitedDetached('detached', 2, { timeoutMs }),
            child('plain', 3),
          ],
        });
        assert.equal((await pass(store)).canceled, 2);
        const statuses = ['parent', 'child', 'detached', 'plain'].map(
          async (id) => (await store.record(id)).status,
        );
        assert.deepEqual(await Promise.all(statuses), [
          'running',
          'canceled',
          'canceled',
          'pending',
        ]);
      },
    },
    {
      id: 'timeout/tells-the-parent',
      title: 'the parent of a child that timed out gets `childCanceled` with the trigger `timeout`',
      async run(store) {
        await store.begin('parent', { children: [child('child', 1, { timeoutMs })] });
        await pass(store);
        const [message] = contents(await store.claimOne());
        assert.deepEqual(
          [message?.['kind'], message?.['operation'], message?.['trigger']],
          ['childCanceled', 1, 'timeout'],
        );
      },
    },
    {
      id: 'timeout/of-tasks',
      title: 'task runs have timeouts, over all attempts, queued or held',
      async run(store) {
        const { provider } = store;
        const tasks = ['queued', 'held'].map((id) => newTask(id, { name: id, timeoutMs }));
        await provider.createTasks(tasks);
        const held = await store.claimWorkOne({ tasks: ['held'], lockMs: 10 * timeoutMs });
        assert.equal((await pass(store)).canceled, 2);
        const queued = await store.record('queued');
        assert.deepEqual([queued.status, queued.cancel?.trigger], ['canceled', 'timeout']);
        const running = await store.record('held');
        assert.deepEqual([running.status, running.cancel?.trigger], ['canceling', 'timeout']);
        const renewed = await store.renewWork(held.lockToken);
        assert.equal(renewed.held && renewed.cancel?.trigger, 'timeout');
      },
    },
    {
      id: 'timeout/of-jobs',
      title: 'a job has the timeout of its run',
      async run(store) {
        await openSession(store, 's', { leaseMs: 10 * timeoutMs });
        const job = orchestrationJob('job');
        assert.equal(job.kind, 'orchestration');
        await store.provider.submitJobs([
          { ...job, instance: { ...job.instance, timeoutMs } },
          taskJob('task', { timeoutMs }),
        ]);
        assert.equal((await pass(store)).canceled, 2);
      },
    },
    {
      id: 'timeout/counts-from-the-earliest-start',
      title: 'a timeout counts from when the instance may start',
      async run(store) {
        await store.create('delayed', { timeoutMs, delayMs: 5_000 });
        await store.create('timed', { timeoutMs, runAt: store.clock.now() + 5_000 });
        assert.equal((await pass(store)).canceled, 0);
        assert.equal((await pass(store, 5_000)).canceled, 2);
      },
    },
    {
      id: 'timeout/is-applied-once',
      title: 'concurrent calls of applyTimeouts() cancel each instance once',
      async run(store) {
        for (let index = 0; index < 5; index += 1)
          await store.create(`timed-${index}`, { timeoutMs });
        await store.clock.advance(timeoutMs);
        const applied = await Promise.all([apply(store), apply(store), apply(store)]);
        const total = applied.reduce((sum, { canceled }) => sum + canceled, 0);
        assert.equal(total, 5);
        assert.deepEqual((await apply(store)).canceled, 0);
      },
    },
    {
      id: 'timeout/leaves-what-has-ended',
      title: 'applyTimeouts() changes no instance that has ended or is canceling',
      async run(store) {
        await store.begin(
          'over',
          { outcome: { status: 'completed', payload: null } },
          { timeoutMs },
        );
        await store.begin('canceling', {}, { timeoutMs });
        await store.cancel('canceling', { cleanupMs: 10 * timeoutMs });
        await store.clock.advance(timeoutMs);
        const applied = await store.expectNoChange(() => apply(store));
        assert.equal(applied.canceled, 0);
        assert.equal((await store.record('canceling')).cancel?.trigger, undefined);
        assert.equal(applied.nextAt, null);
      },
    },
    {
      id: 'timeout/survives-continue-as-new',
      title: 'a continue-as-new keeps the time at which the timeout passes',
      async run(store) {
        await store.begin(
          'timed',
          { outcome: { status: 'continuedAsNew', version: null, start: startMessage() } },
          { timeoutMs },
        );
        await store.clock.advance(timeoutMs / 2);
        await store.commit(await store.claimOne(), { events: [event('again')] });
        assert.equal((await pass(store, timeoutMs / 2)).canceled, 1);
        assert.equal((await store.record('timed')).cancel?.trigger, 'timeout');
      },
    },
    {
      id: 'timeout/starts-again-with-a-retry',
      title: 'a retry starts the timeout again, and clears the trigger',
      async run(store) {
        await store.provider.createTasks([newTask('run', { timeoutMs })]);
        await pass(store);
        const { incarnation } = await store.record('run');
        const source = { instanceId: 'run', incarnation, executionId: 1, historyLength: 0 };
        const [retried] = await store.provider.retryInstances([{ source, version: null }]);
        assert.equal(retried?.kind, 'retried');
        assert.equal((await store.record('run')).cancel, null);
        await store.clock.advance(timeoutMs - 1);
        assert.equal((await apply(store)).canceled, 0);
        assert.equal((await pass(store, 1)).canceled, 1);
      },
    },
    {
      id: 'timeout/is-deleted-with-its-instance',
      title: 'a deletion deletes the timeout of the instance',
      async run(store) {
        await store.begin('gone', {}, { timeoutMs });
        await forceDelete(store, 'gone');
        assert.deepEqual((await apply(store)).nextAt, null);
        await store.create('gone');
        assert.equal((await pass(store)).canceled, 0);
      },
    },
    {
      id: 'timeout/returns-the-next',
      title: 'applyTimeouts() returns its time and the next timeout, and applies at most `limit`',
      async run(store) {
        assert.equal((await apply(store)).nextAt, null);
        const now = store.clock.now();
        for (const after of [3, 1, 2]) await store.create(`timed-${after}`, { timeoutMs: after });
        const before = await apply(store);
        assert.deepEqual([before.nowMs, before.nextAt], [now, now + 1]);
        await store.clock.advance(2);
        const first = await apply(store, 1);
        assert.deepEqual([first.canceled, first.nextAt], [1, now + 2]);
        assert.equal((await store.record('timed-1')).status, 'canceled');
        assert.equal((await apply(store, lockMs)).canceled, 1);
      },
    },
  ],
};
