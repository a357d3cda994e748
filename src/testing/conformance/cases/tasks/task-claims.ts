import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { workItem } from '../../sample-data.ts';
import { expectCommitted } from '../../expectations.ts';
import { lockMs } from '../../store-under-test.ts';
import {
  createTask,
  createTasks,
  expectStatus,
  failure,
  idsOf,
  newTask,
  startTask,
} from '../../task-helpers.ts';
import { withTimeLimit, expectPending } from '../../time-limit.ts';

const waitMs = 60_000;

export const taskClaims: Capability = {
  title: 'task claims',
  cases: [
    {
      id: 'task-claim/makes-a-run-running',
      title: 'the first claim sets a run to running, and it stays running between attempts',
      async run(store) {
        await createTask(store, 'a');
        await expectStatus(store, 'a', 'pending');
        await store.clock.advance(5);
        const { lockToken } = await store.claimWorkOne();
        const startedAt = store.clock.now();
        const running = await store.record('a');
        assert.deepEqual([running.status, running.startedAt], ['running', startedAt]);
        await store.clock.advance(5);
        await store.provider.retryWorkItems([{ lockToken, delayMs: 10, failure }]);
        await expectStatus(store, 'a', 'running');
        await store.clock.advance(10);
        await store.claimWorkOne();
        const again = await store.record('a');
        assert.deepEqual([again.status, again.startedAt], ['running', startedAt]);
      },
    },
    {
      id: 'task-claim/only-named-tasks',
      title: 'a fetch claims only the named tasks, separately from activity names',
      async run(store) {
        await store.begin('o', { workItems: [workItem(1, { name: 'mail' })] });
        await createTasks(store, [newTask('a', { name: 'mail' }), newTask('b', { name: 'other' })]);
        assert.deepEqual(await store.claimWork({ names: [], tasks: [] }), []);
        assert.deepEqual(await store.claimWork({ names: ['other'], tasks: ['unknown'] }), []);
        assert.deepEqual(idsOf(await store.claimWork({ names: [], tasks: ['mail'] })), ['a']);
        assert.deepEqual(idsOf(await store.claimWork({ names: ['mail'], tasks: [] })), ['o']);
        assert.deepEqual(idsOf(await store.claimWork()), ['b']);
      },
    },
    {
      id: 'task-claim/waits-for-its-time',
      title: 'a run is claimable exactly at runAt, which resolves a waiting fetch',
      async run(store) {
        const runAt = store.clock.now() + 1_000;
        await createTask(store, 'a', { runAt });
        await store.clock.advance(999);
        assert.deepEqual(await store.claimWork(), []);
        await expectStatus(store, 'a', 'pending');
        const waiting = store.claimWork({ waitMs });
        await expectPending(waiting, 'the fetch');
        await store.clock.advance(1);
        assert.deepEqual(idsOf(await withTimeLimit(waiting, 'at its time')), ['a']);
      },
    },
    {
      id: 'task-claim/a-time-that-has-passed-is-now',
      title: 'a run with a past runAt is queued behind runs created earlier',
      async run(store) {
        await createTask(store, 'a');
        await store.clock.advance(10);
        await createTask(store, 'b', { runAt: store.clock.now() - 1_000 });
        assert.deepEqual(idsOf(await store.claimWork()), ['a', 'b']);
      },
    },
    {
      id: 'task-claim/a-new-run-ends-a-wait',
      title: 'a waiting fetch resolves only for a new run within its filter',
      async run(store) {
        const waiting = store.claimWork({ waitMs, tasks: ['task'] });
        await createTask(store, 'x', { name: 'other' });
        await expectPending(waiting, 'the fetch');
        await createTask(store, 'a');
        assert.deepEqual(idsOf(await withTimeLimit(waiting, 'after a run was created')), ['a']);
      },
    },
    {
      id: 'task-claim/a-lost-worker-is-replaced',
      title: 'a run with an expired lease is claimed again, and its old token is rejected',
      async run(store) {
        const lost = await startTask(store, 'a');
        await store.clock.advance(lockMs);
        const item = await store.claimWorkOne();
        assert.deepEqual([item.claims, item.failures], [2, 0]);
        const late = await store.expectNoChange(() => store.ackWork(lost.lockToken));
        assert.equal(late.ok, false);
        expectCommitted(await store.ackWork(item.lockToken));
        await expectStatus(store, 'a', 'completed');
      },
    },
    {
      id: 'task-claim/goes-on-as-activities-do',
      title: 'renewals, heartbeats, abandons and listRunningItems() work for task runs',
      async run(store) {
        const { provider } = store;
        const { lockToken } = await startTask(store, 'a');
        const renewals = [{ lockToken, heartbeat: '{"at":1}' }];
        const renewed = await provider.renewWorkItemLocks(renewals, 2 * lockMs);
        assert.deepEqual(renewed, [{ held: true, cancel: null }]);
        const [running] = await provider.listRunningItems('a');
        assert.deepEqual(
          [running?.name, running?.attempt, running?.lockedUntil],
          ['task', 1, store.clock.now() + 2 * lockMs],
        );
        await provider.abandonWorkItems([{ lockToken, delayMs: 100, giveBackClaim: true }]);
        assert.deepEqual(await store.claimWork(), []);
        await store.clock.advance(100);
        const again = await store.claimWorkOne();
        assert.deepEqual([again.claims, again.failures, again.heartbeat], [1, 0, '{"at":1}']);
      },
    },
    {
      id: 'task-claim/figures-keep-tasks-apart',
      title: 'queueDepths() counts task runs separately from activities',
      async run(store) {
        const now = store.clock.now();
        await store.begin('o', { workItems: [workItem(1)] });
        await createTasks(store, [newTask('a'), newTask('b', { runAt: now + 9 })]);
        await startTask(store, 'c', { name: 'held' }, { tasks: ['held'], names: [] });
        const { activities, tasks } = await store.provider.queueDepths();
        assert.deepEqual(activities, {
          ready: 1,
          delayed: 0,
          claimed: 0,
          paused: 0,
          oldestReadyAt: now,
        });
        assert.deepEqual(tasks, {
          ready: 1,
          delayed: 1,
          claimed: 1,
          paused: 0,
          oldestReadyAt: now,
        });
        const size = await store.provider.measureInstance('a');
        assert.deepEqual(
          [size?.activities, size?.executions, size?.events, size?.messages],
          [1, 1, 0, 0],
        );
      },
    },
  ],
};
